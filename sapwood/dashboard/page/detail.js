// One request: which stage took its time, its waterfall, its figures, and its story line by line.

import { byId, element, table } from "./dom.js";
import { clock, count, duration } from "./format.js";
import { waterfall } from "./waterfall.js";
import { reasons, verdict } from "./why.js";

const STORY_HIDES = new Set(["event", "service", "timestamp", "level", "request_id", "at"]);
const TIMES = /_s$/;

/** Args: told: of the store's story; isOther: than the one that stands there. */
export function showDetail(told, isOther) {
  const place = byId("detail");
  const { request_id, lines, gaps } = told;
  if (!lines.length) {
    place.replaceChildren(element("p", { class: "empty" }, `No lines of request ${request_id} are kept here.`));
    return;
  }
  const account = lines.findLast((line) => line.event === "request") ?? {};
  const fall = waterfall(lines, gaps);
  place.replaceChildren(
    element("div", {}, element("h2", {}, element("code", {}, request_id)), said(fall, told, account)),
    drawn(fall, told),
    facts(account),
    story(told, fall.from),
  );
  if (isOther) place.scrollTop = 0;
}

function said(fall, told, account) {
  const [before, name, behind] = verdict(fall);
  const parts = [before, element("b", {}, name), behind, " "];
  if (account.error) parts.push("It ended with ", element("span", { class: "bad" }, account.error), ". ");
  if (account.outcome === undefined) parts.push("It has not ended. ");
  parts.push(element("span", { class: "why" }, reasons(fall, told).join(" ")));
  return element("p", { class: "verdict" }, ...parts);
}

function drawn({ from, total_s, attempts, longest }, { outages, to }) {
  const place = element("div", { class: "waterfall", role: "img", "aria-label": "Waterfall of its stages" });
  const axis = element("div", { class: "axis" });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const tick = element("span", {}, duration(share * total_s));
    tick.style.left = `${100 * share}%`;
    axis.append(tick);
  }
  place.append(element("span"), axis, element("span"));
  const groups = outages.length ? [...attempts, { name: "meanwhile", spans: outages.map((outage) => away(outage, to)) }] : attempts;
  for (const { name, spans } of groups) {
    if (name) place.append(element("div", { class: "attempt" }, name));
    for (const span of [...spans].sort((one, other) => one.pieces[0].start - other.pieces[0].start)) {
      place.append(...row(span, from, total_s, span === longest));
    }
  }
  return place;
}

/** As a span: a process that was away, or stood still. */
function away({ process, what, start, stop }, end) {
  return { name: `${process} ${what}`, lost: true, pieces: [{ start, stop }], length_s: stop === Infinity ? end - start : stop - start };
}

function row(span, from, total_s, isLongest) {
  const share = (at) => Math.min(1, Math.max(0, (at - from) / total_s));
  const bars = span.pieces.map(({ start, stop }) => {
    const bar = element("div", { class: `bar${isLongest ? " longest" : ""}${span.lost ? " lost" : ""}` });
    bar.style.left = `${100 * share(start)}%`;
    bar.style.width = `${100 * (share(stop) - share(start))}%`;
    return bar;
  });
  return [
    element("span", { class: span.lost ? "bad" : "" }, span.name),
    element("div", { class: "track" }, ...bars),
    element("span", { class: "number" }, duration(span.length_s)),
  ];
}

function facts(account) {
  const shown = Object.entries(account).filter(([name, value]) => !STORY_HIDES.has(name) && value !== null && value !== "");
  const list = element("dl", { class: "facts" });
  for (const [name, value] of shown) {
    list.append(element("div", {}, element("dt", {}, name.replaceAll("_", " ").replace(/ s$/, "")), element("dd", {}, shownAs(name, value))));
  }
  return list;
}

/** Its own lines, and what happened to processes meanwhile. */
function story({ lines, events }, from) {
  const all = [...lines, ...events].sort((one, other) => one.at - other.at);
  const rows = all.map((line) => [
    `+${duration(Math.max(0, line.at - from))}`,
    String(line.service ?? ""),
    element("span", { class: line.level === "warning" || line.level === "error" ? "bad" : "" }, line.event),
    line.event === "request" ? "its account, above" : rest(line),
  ]);
  const made = table([[`since ${clock(from)}`], ["process"], ["event"], [""]], rows, "No lines.");
  made.classList.add("story");
  events.forEach((event) => made.tBodies[0].rows[all.indexOf(event)].classList.add("process"));
  return made;
}

/** What says something: no empty fields, no zeros. */
function rest(line) {
  const told = Object.entries(line).filter(([name, value]) => !STORY_HIDES.has(name) && ![null, "", 0, false].includes(value));
  return told.map(([name, value]) => `${name.replace(TIMES, "")} ${shownAs(name, value)}`).join(" · ");
}

function shownAs(name, value) {
  if (typeof value === "number") return TIMES.test(name) ? duration(value) : ["status", "pid"].includes(name) ? String(value) : count(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}
