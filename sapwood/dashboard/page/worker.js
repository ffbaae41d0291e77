// Reads and sums up lines away from the page, which stays smooth. Answers what the page asks for.

import { follow, readFile } from "./sources.js";
import { Store } from "./store.js";
import { view } from "./view.js";

let store = new Store();
let source = new AbortController();
let isLive = false;
let isReading = true;
let heard = performance.now(); // when the newest line came

const asked = {
  follow: ({ url }) => start(true, (signal, to) => follow(url, signal, to)),
  open: ({ file }) => start(false, (signal, to) => readFile(file, signal, to)),
  view: (question) => postMessage({ kind: "view", ...answer(question) }),
  story: ({ request_id }) => postMessage({ kind: "story", request_id, ...store.story(request_id) }),
};

addEventListener("message", ({ data }) => asked[data.kind](data));

async function start(live, read) {
  source.abort();
  source = new AbortController();
  const { signal } = source;
  begin(!live);
  try {
    await read(signal, {
      began: (isSaved = !live) => begin(isSaved),
      took: take,
      caughtUp: () => ((isReading = false), say("ready")),
      lost: () => say("lost"),
    });
  } catch (error) {
    if (signal.aborted) return;
    isReading = false;
    postMessage({ kind: "state", state: "refused", why: error.message });
  }
}

function begin(isSaved) {
  store = new Store();
  isReading = true;
  isLive = !isSaved;
  postMessage({ kind: "state", state: "reading", isSaved });
}

function take(lines) {
  for (const line of lines) store.add(line);
  if (lines.length) heard = performance.now();
}

function say(state) {
  postMessage({ kind: "state", state });
}

/** Args: span_s: null for all there is; until: null for now; trees: when those were told that the page has. */
function answer({ span_s, until, order, filter, trees }) {
  const to = until ?? now();
  const from = span_s === null ? store.first : to - span_s;
  if (!Number.isFinite(to)) return { empty: true, isReading };
  const newer = [...store.trees].filter(([name, tree]) => trees[name] !== tree.at);
  return { ...view(store, { from, to, goesOn: isLive && until === null }, { order, filter }), now: now(), isReading, trees: newer };
}

/** By the clock of the log, which goes on while the log is silent. */
function now() {
  return isLive && !isReading ? store.last + (performance.now() - heard) / 1000 : store.last;
}
