// The page: asks the worker for what is shown, and draws it, a piece a frame.

import { Charts } from "./charts.js";
import { showDetail } from "./detail.js";
import { byId, choice } from "./dom.js";
import { Figures } from "./figures.js";
import { clock, count } from "./format.js";
import { listen, showShortcuts } from "./keys.js";
import { requestIdOf } from "./listing.js";
import { Painter } from "./painter.js";
import { Requests } from "./requests.js";
import { drawTables } from "./tables.js";
import { colours, toggleTheme } from "./theme.js";
import { Tree } from "./tree.js";

const ASK_EVERY_MS = 500;
const EVENTS = new URL("../events", import.meta.url).href;
const TABS = [["overview", "Overview"], ["requests", "Requests"], ["tree", "Cache"]];
const RANGES = [[60, "1 min"], [300, "5 min"], [900, "15 min"], [3600, "1 h"], [null, "All"]];

const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
const state = { tab: "overview", span_s: 300, pausedAt: null, view: null, isAsking: false, source: "", state: "reading", told: "", isEmpty: false };
const figures = new Figures();
const charts = new Charts(draw);
const requests = new Requests(ask, () => (askStory(), showAddress())); // browsers may refuse too many addresses in a row
const tree = new Tree(draw, () => painter.askAnew());

const heard = {
  view(answer) {
    state.isAsking = false;
    state.isEmpty = Boolean(answer.empty) && !answer.isReading;
    if (answer.empty) return showState();
    state.view = answer;
    tree.add(answer.trees);
    if (state.tab === "requests") askStory(); // it may go on
    draw();
  },
  story(told) {
    const key = `${told.request_id} ${told.lines.length} ${told.events.length}`;
    if (told.request_id !== requests.chosen || key === state.told) return;
    showDetail(told, told.request_id !== state.told.split(" ")[0]);
    state.told = key;
  },
  state(told) {
    state.state = told.state;
    if (told.state === "reading") tree.forget();
    if (told.isSaved && state.source === "live") saved();
    if (told.state === "refused") refused(told);
    else ask();
    showState();
  },
};
worker.addEventListener("message", ({ data }) => heard[data.kind](data));

function ask() {
  if (state.isAsking || document.hidden) return;
  state.isAsking = true;
  const { order, filter } = requests;
  worker.postMessage({ kind: "view", span_s: state.span_s, until: state.pausedAt, order, filter, trees: tree.known });
}

function askStory() {
  if (requests.chosen !== null) worker.postMessage({ kind: "story", request_id: requests.chosen });
}

const painter = new Painter(pieces);
function draw() {
  painter.ask();
}

function* pieces() {
  const { view, tab } = state;
  if (view === null) return;
  showState();
  if (tab === "overview") {
    figures.draw(view);
    yield* charts.draw(view, colours());
    yield* drawTables(view);
  } else if (tab === "requests") {
    yield* requests.draw(view);
  } else {
    yield* tree.draw(colours());
  }
}

// --- the address, which names the request that is looked at ---------------------------------------------------------

function showAddress() {
  const names = state.tab === "requests" && requests.chosen !== null;
  const hash = names ? `#${new URLSearchParams({ request: requests.chosen })}` : "";
  history.replaceState(null, "", location.pathname + location.search + hash);
}

function goToAddress() {
  const requestId = new URLSearchParams(location.hash.slice(1)).get("request");
  if (!requestId) return;
  chooseTab("requests");
  requests.look(requestIdOf(requestId));
  ask();
}

// --- what is looked at ---------------------------------------------------------------------------------------------

function follow() {
  state.source = "live";
  setRange(300);
  worker.postMessage({ kind: "follow", url: EVENTS });
}

/** It is a file that is served, so all of it is of interest. */
function saved() {
  state.source = "saved";
  setRange(null);
}

function open(file) {
  state.source = file.name;
  pause(false);
  setRange(null);
  worker.postMessage({ kind: "open", file });
}

function refused({ why }) {
  byId("why").textContent = `${why}.`;
  if (!byId("refused").open) byId("refused").showModal();
}

function showState() {
  const { view, source, isEmpty } = state;
  const says = { reading: "reading", ready: source, lost: "connection lost, trying again", refused: "not connected" }[state.state];
  byId("state").className = state.state === "ready" && source === "live" ? "live" : state.state;
  const unread = view?.unread ? ` · ${count(view.unread)} not read` : "";
  const to = view && source !== "live" ? ` · ${clock(view.range.from)} – ${clock(view.range.to)}` : "";
  byId("state").textContent = `${says}${view ? ` · ${count(view.lines)} lines${unread}${to}` : ""}`;
  if (isEmpty && source !== "live") byId("state").textContent = `no log lines of Sapwood in ${source === "saved" ? "this file" : source}: they are JSON`;
  byId("state").dataset.lines = view?.lines ?? 0;
  byId("state").dataset.state = state.state;
}

// --- controls ------------------------------------------------------------------------------------------------------

function setTab(tab) {
  if (tab === "requests" && tab !== state.tab) requests.clear();
  state.tab = tab;
  for (const [name] of TABS) byId(name).hidden = name !== tab;
  showAddress();
  ask();
  painter.askAnew();
}

const chooseTab = choice(byId("tabs"), TABS, state.tab, setTab, ["tab", "aria-selected"]);
const setRange = choice(byId("ranges"), RANGES, state.span_s, (span_s) => {
  state.span_s = span_s;
  ask();
});

function pause(paused) {
  state.pausedAt = paused ? (state.view?.range.to ?? null) : null;
  byId("pause").setAttribute("aria-pressed", state.pausedAt !== null);
  byId("pause").textContent = state.pausedAt !== null ? "Go on" : "Pause";
  ask();
}

byId("pause").addEventListener("click", () => pause(state.pausedAt === null));
byId("open").addEventListener("click", () => byId("file").click());
byId("instead").addEventListener("click", () => byId("file").click());
byId("theme").addEventListener("click", () => (toggleTheme(), draw()));
byId("help").addEventListener("click", showShortcuts);
byId("file").addEventListener("change", ({ target }) => {
  if (target.files.length) open(target.files[0]);
  target.value = "";
  byId("refused").close();
});
byId("refused").addEventListener("submit", () => location.reload()); // the browser asks for the key that is missing
for (const event of ["dragenter", "dragover"]) {
  addEventListener(event, (dragged) => {
    dragged.preventDefault();
    byId("drop").hidden = false;
  });
}
addEventListener("dragleave", ({ relatedTarget }) => (byId("drop").hidden = relatedTarget === null));
addEventListener("drop", (dropped) => {
  dropped.preventDefault();
  byId("drop").hidden = true;
  if (dropped.dataTransfer.files.length) open(dropped.dataTransfer.files[0]);
});

listen({
  1: ["overview", () => chooseTab("overview")],
  2: ["requests, and which stage took their time", () => chooseTab("requests")],
  3: ["the radix tree of the cache", () => chooseTab("tree")],
  " ": ["pause, go on", () => pause(state.pausedAt === null)],
  j: ["next request", () => requests.move(1)],
  k: ["request before it", () => requests.move(-1)],
  "/": ["look for a request", () => (chooseTab("requests"), byId("filter").focus())],
  "[": ["shorter range", () => changeRange(-1)],
  "]": ["longer range", () => changeRange(1)],
  o: ["open a log file", () => byId("file").click()],
  l: ["back to the live log", follow],
  t: ["light or dark", () => byId("theme").click()],
  "?": ["this list", showShortcuts],
});

function changeRange(step) {
  const at = RANGES.findIndex(([span_s]) => span_s === state.span_s) + step;
  if (RANGES[at]) setRange(RANGES[at][0]);
}

setInterval(() => state.pausedAt === null && ask(), ASK_EVERY_MS);
document.addEventListener("visibilitychange", () => ask());
addEventListener("hashchange", goToAddress);
follow();
goToAddress();
