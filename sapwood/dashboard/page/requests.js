// The list of requests: in which order, which are looked for, which one is chosen.

import { byId, choice, element, table } from "./dom.js";
import { clock, count, duration } from "./format.js";

const ORDERS = [
  ["newest", "Newest"],
  ["slowest", "Slowest"],
  ["first_token", "First token"],
  ["queued", "Queued"],
  ["failed", "Failed"],
];
const COLUMNS = [["ended"], ["request"], ["route"], ["outcome"], ["prompt", true], ["cached", true], ["output", true], ["first token", true], ["total", true]];

export class Requests {
  /** Args: changed(): the list is to be asked for anew; chose(request_id). */
  constructor(changed, chose) {
    Object.assign(this, { order: "newest", filter: "", chosen: null, shown: "", rows: [], chose });
    choice(byId("orders"), ORDERS, this.order, (order) => {
      this.order = order;
      changed();
    });
    byId("filter").addEventListener("input", ({ target }) => {
      this.filter = target.value.trim();
      changed();
    });
    byId("rows").addEventListener("keydown", (event) => this.#key(event));
    showNothing();
  }

  draw({ requests }) {
    byId("found").textContent = requests.found > requests.rows.length ? `${count(requests.rows.length)} of ${count(requests.found)}` : `${count(requests.found)} found`;
    const shown = requests.rows.map((row) => row.request_id + row.at).join();
    if (shown === this.shown) return; // what is pointed at stays where it is
    this.shown = shown;
    this.rows = requests.rows;
    const made = table(COLUMNS, requests.rows.map(cells), "No requests in this range.");
    byId("rows").replaceChildren(made);
    made.querySelectorAll("tbody tr").forEach((row, number) => {
      row.setAttribute("aria-selected", false);
      row.addEventListener("click", () => this.choose(number));
    });
    this.#mark();
  }

  /** Args: number: of the row. */
  choose(number) {
    const row = this.rows[Math.min(this.rows.length - 1, Math.max(0, number))];
    if (row === undefined) return;
    this.chosen = row.request_id;
    this.#mark()?.scrollIntoView({ block: "nearest" });
    this.chose(row.request_id);
  }

  move(step) {
    const at = this.rows.findIndex((row) => row.request_id === this.chosen);
    this.choose(at < 0 ? 0 : at + step);
  }

  #mark() {
    let marked = null;
    byId("rows").querySelectorAll("tbody tr").forEach((row, number) => {
      const is = this.rows[number].request_id === this.chosen;
      row.setAttribute("aria-selected", is);
      if (is) marked = row;
    });
    return marked;
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
    element("span", { class: row.outcome === "ok" ? "" : "bad" }, String(outcome)),
    count(row.prompt_tokens),
    count(row.cached_tokens),
    count(row.completion_tokens),
    duration(row.ttft_s ?? NaN),
    duration(row.total_s),
  ];
}
