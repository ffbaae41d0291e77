// Processes with their age and restarts, errors by kind, and what else the log warns of.

import { byId, element, table } from "./dom.js";
import { age, clock, count } from "./format.js";

/** A piece for each. */
export function* drawTables({ processes, errors, troubles, now }) {
  const sorted = [...processes].sort((one, other) => (one.name < other.name ? -1 : 1));
  fill("processes", [["process"], ["state"], ["age", true], ["restarts", true], ["last line", true]], sorted.map((one) => process(one, now)), "No processes yet.");
  yield;
  fill("errors", [["error"], ["requests", true], ["last", true]], errors.map(kind), "None in this range.");
  yield;
  fill("troubles", [["event"], ["lines", true], ["last", true]], troubles.map(kind), "None in this range.");
}

function process({ name, state, ready, first, last, restarts, why }, now) {
  const isDown = state === "ended" || state === "killed";
  const since = Number.isFinite(ready) ? age(now - ready) : `> ${age(now - first)}`;
  return [
    name,
    element("span", { class: isDown ? "bad" : "", title: why }, isDown ? `${state}: ${why}` : state || "seen"),
    isDown ? "–" : since,
    element("span", { class: restarts ? "bad" : "" }, count(restarts)),
    Number.isFinite(last) ? `${age(now - last)} ago` : "–",
  ];
}

function kind({ name, count: times, last }) {
  return [element("span", { title: name }, name), count(times), clock(last)];
}

function fill(id, columns, rows, nothing) {
  const place = byId(id);
  const top = place.scrollTop;
  place.replaceChildren(table(columns, rows, nothing));
  place.scrollTop = top;
}
