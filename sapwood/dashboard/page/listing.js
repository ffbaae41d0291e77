// Which requests are listed: those of the range that have in their account what is looked for, and the one whose id it is.

import { parsed } from "./store.js";

const MOST_ROWS = 200;
const ID = /^([0-9a-f]{6,32})(-\d+)?$/; // or its beginning; of one of its generations, too
const WHOLE_ID = /^[0-9a-f]{32}$/;

/** The newest first, or the slowest. An id is looked for in all there is, whatever the range. */
export function listed({ requests, accounts }, { from, to }, order, filter) {
  const { of, length } = requests;
  const [text, id] = [textOf(filter), idOf(filter)];
  const rows = [];
  let isBeyond = false;
  for (let row = 0; row < length; row++) {
    if (order === "failed" && !(of.outcome[row] > 0)) continue;
    const isWithin = of.at[row] >= from && of.at[row] <= to;
    if (!(isWithin ? text : id)?.test(accounts[row])) continue;
    rows.push(row);
    isBeyond ||= !isWithin;
  }
  const key = { slowest: of.total_s, first_token: of.ttft_s, queued: of.queue_s }[order] ?? of.at;
  rows.sort((one, other) => (key[other] || 0) - (key[one] || 0));
  return { filter, isBeyond, found: rows.length, rows: rows.slice(0, MOST_ROWS).map((row) => parsed(accounts[row])) };
}

/** What people paste may be in capitals, or name one generation of the request. */
export function requestIdOf(text) {
  return ID.exec(text.toLowerCase())?.[1] ?? text;
}

/** Of a request that is not listed, since it has not ended, maybe. */
export function isWholeId(text) {
  return WHOLE_ID.test(requestIdOf(text));
}

function textOf(filter) {
  return new RegExp(requestIdOf(filter).replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
}

function idOf(filter) {
  return ID.test(filter.toLowerCase()) ? new RegExp(`"(request_id|trace_id)": *"${requestIdOf(filter)}`) : null;
}
