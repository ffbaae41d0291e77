// One request: which stage took its time, its waterfall, its figures, and its story line by line.

import { byId, element, table } from "./dom.js";
import { clock, count, duration, percent } from "./format.js";
import { waterfall } from "./waterfall.js";

const STORY_HIDES = new Set(["event", "service", "timestamp", "level", "request_id", "at"]);
const TIMES = /_s$/;

export function showDetail(requestId, lines) {
  const place = byId("detail");
  if (!lines.length) {
    place.replaceChildren(element("p", { class: "empty" }, "The lines of this request are no longer kept here."));
    return;
  }
  const account = lines.findLast((line) => line.event === "request") ?? {};
  const spans = waterfall(lines);
  place.replaceChildren(
    element("div", {}, element("h2", {}, element("code", {}, requestId)), verdict(spans, account)),
    drawn(spans),
    facts(account),
    story(lines, spans.from),
  );
  place.scrollTop = 0;
}

function verdict({ longest, total_s }, account) {
  if (!longest) return element("p", { class: "verdict" }, `${duration(total_s)} in all.`);
  const share = percent(longest.length_s / total_s);
  const parts = [`${duration(total_s)} in all, most of it `, element("b", {}, longest.name), `: ${duration(longest.length_s)}, ${share}.`];
  if (account.error) parts.push(" It ended with ", element("span", { class: "bad" }, account.error), ".");
  return element("p", { class: "verdict" }, ...parts);
}

function drawn({ from, total_s, attempts, longest }) {
  const place = element("div", { class: "waterfall", role: "img", "aria-label": "Waterfall of its stages" });
  const axis = element("div", { class: "axis" });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const tick = element("span", {}, duration(share * total_s));
    tick.style.left = `${100 * share}%`;
    axis.append(tick);
  }
  place.append(element("span"), axis, element("span"));
  for (const { name, spans } of attempts) {
    if (name) place.append(element("div", { class: "attempt" }, name));
    for (const span of [...spans].sort((one, other) => one.start - other.start)) {
      place.append(...row(span, from, total_s, span === longest));
    }
  }
  return place;
}

function row(span, from, total_s, isLongest) {
  const bar = element("div", { class: `bar${isLongest ? " longest" : ""}${span.lost ? " lost" : ""}` });
  const start = Math.min(1, Math.max(0, (span.start - from) / total_s));
  bar.style.left = `${100 * start}%`;
  bar.style.width = `${100 * Math.min(1 - start, span.length_s / total_s)}%`;
  return [
    element("span", { class: span.lost ? "bad" : "" }, span.lost ? `${span.name}, lost` : span.name),
    element("div", { class: "track" }, bar),
    element("span", { class: "number" }, duration(span.length_s)),
  ];
}

function facts(account) {
  const shown = Object.entries(account).filter(([name, value]) => !STORY_HIDES.has(name) && value !== null);
  const list = element("dl", { class: "facts" });
  for (const [name, value] of shown) {
    list.append(element("div", {}, element("dt", {}, name.replaceAll("_", " ").replace(/ s$/, "")), element("dd", {}, said(name, value))));
  }
  return list;
}

function story(lines, from) {
  const rows = lines.map((line) => [
    `+${duration(Math.max(0, line.at - from))}`,
    String(line.service ?? ""),
    line.event,
    line.event === "request" ? "its account, above" : rest(line),
  ]);
  const made = table([[`since ${clock(from)}`], ["process"], ["event"], [""]], rows, "No lines.");
  made.classList.add("story");
  return made;
}

function rest(line) {
  const told = Object.entries(line).filter(([name, value]) => !STORY_HIDES.has(name) && value !== null);
  return told.map(([name, value]) => `${name.replace(TIMES, "")} ${said(name, value)}`).join(" · ");
}

function said(name, value) {
  if (typeof value === "number") return TIMES.test(name) ? duration(value) : name === "status" ? String(value) : count(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}
