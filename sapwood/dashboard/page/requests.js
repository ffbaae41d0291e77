// The list of requests: in which order, which are looked for, which one is chosen.

import { byId, choice, element, table, tableRow } from "./dom.js";
import { clock, count, duration } from "./format.js";
import { isWholeId, requestIdOf } from "./listing.js";

const ORDERS = [
  ["newest", "Newest"],
  ["slowest", "Slowest"],
  ["first_token", "First token"],
  ["queued", "Queued"],
  ["failed", "Failed"],
];
const TOGETHER = 8; // rows that are laid out at once
const COLUMNS = [["ended"], ["request"], ["route"], ["outcome"], ["prompt", true], ["cached", true], ["output", true], ["first token", true], ["total", true]];

export class Requests {
  /** Args: changed(): the list is to be asked for anew; chose(request_id). */
  constructor(changed, chose) {
    Object.assign(this, { order: "newest", filter: "", chosen: null, marked: undefined, shown: null, rows: [], chose, wantsFirst: false, answered: "" });
    choice(byId("orders"), ORDERS, this.order, (order) => {
      this.order = order;
      changed();
    });
    byId("filter").addEventListener("input", ({ target }) => {
      this.filter = target.value.trim();
      changed();
    });
    byId("filter").addEventListener("keydown", (event) => this.#enter(event));
    byId("rows").addEventListener("keydown", (event) => this.#key(event));
    byId("rows").addEventListener("click", ({ target }) => {
      const row = target.closest("tbody tr");
      if (row) this.choose(row.sectionRowIndex);
    });
    showNothing();
  }

  /** Before it is seen again: to lay out all of it at once takes long. */
  clear() {
    byId("rows").replaceChildren();
    Object.assign(this, { rows: [], shown: null });
  }

  /** Row by row in the place of those before, so that the list stays where it was scrolled to. */
  *draw({ requests: { filter, found, rows, isBeyond } }) {
    const counted = found > rows.length ? `${count(rows.length)} of ${count(found)}` : `${count(found)} found`;
    byId("found").textContent = isBeyond ? `${counted}, in the whole log` : counted;
    const shown = rows.map((row) => row.request_id + row.at).join();
    if (shown !== this.shown) yield* this.#show(rows, shown); // else what is pointed at stays where it is
    this.answered = filter;
    if (this.wantsFirst && filter === this.filter) this.#first();
  }

  *#show(rows, shown) {
    this.shown = null; // until all stand there
    const body = this.#body(rows);
    for (const [number, row] of rows.entries()) {
      this.#put(body, number, row);
      if (number % TOGETHER) continue;
      body.parentNode.offsetHeight; // laid out here, where the time is counted
      yield;
    }
    while (this.rows.length > rows.length) this.rows.pop(), body.lastChild.remove();
    this.shown = shown;
  }

  /** Of another place: the address, which names a request. */
  look(requestId) {
    Object.assign(this, { filter: requestId, chosen: requestId });
    byId("filter").value = requestId;
    this.chose(requestId);
  }

  /** From the field into the list, as soon as it is the list of what was typed. */
  #enter(event) {
    if (event.key !== "Enter" && event.key !== "ArrowDown") return;
    event.preventDefault();
    this.wantsFirst = true;
    if (this.answered === this.filter) this.#first();
  }

  #first() {
    this.wantsFirst = false;
    if (!this.rows.length && isWholeId(this.filter)) this.look(requestIdOf(this.filter));
    if (!this.rows.length) return;
    byId("rows").focus();
    this.choose(0);
  }

  /** Where the rows stand; there is none if there are none. */
  #body(rows) {
    const known = byId("rows").querySelector("tbody");
    if (known && rows.length) return known;
    this.rows = rows.slice(0, 1);
    byId("rows").replaceChildren(table(COLUMNS, this.rows.map(cells), "No requests in this range."));
    return byId("rows").querySelector("tbody");
  }

  #put(body, number, row) {
    const made = tableRow(COLUMNS, cells(row));
    if (number < this.rows.length) body.rows[number].replaceWith(made);
    else body.append(made);
    this.rows[number] = row;
    if (row.request_id === this.chosen) this.#mark(number);
  }

  /** Args: number: of the row. */
  choose(number) {
    const at = Math.min(this.rows.length - 1, Math.max(0, number));
    if (at < 0) return;
    this.chosen = this.rows[at].request_id;
    this.#mark(at).scrollIntoView({ block: "nearest" });
    this.chose(this.chosen);
  }

  move(step) {
    const at = this.rows.findIndex((row) => row.request_id === this.chosen);
    this.choose(at < 0 ? 0 : at + step);
  }

  #mark(number) {
    this.marked?.removeAttribute("aria-selected");
    this.marked = byId("rows").querySelector("tbody").rows[number];
    this.marked.setAttribute("aria-selected", true);
    return this.marked;
  }

  #key(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -Infinity, End: Infinity };
    if (!(event.key in steps)) return;
    this.move(steps[event.key]);
    event.preventDefault();
  }
}

function showNothing() {
  byId("detail").replaceChildren(element("p", { class: "empty" }, "Choose a request to see which stage took its time."));
}

function cells(row) {
  const outcome = row.error ?? (row.outcome === "ok" ? (row.finish_reason ?? "ok") : `${row.outcome} ${row.status}`);
  return [
    clock(row.at),
    element("code", {}, String(row.request_id).slice(0, 8)),
    String(row.route).replace("/v1/", ""),
    element("span", { class: row.outcome === "failed" ? "bad" : "" }, String(outcome)),
    count(row.prompt_tokens),
    count(row.cached_tokens),
    count(row.completion_tokens),
    duration(row.ttft_s ?? NaN),
    duration(row.total_s),
  ];
}
