// What log lines have told so far. Knows the names of events and fields (docs/logs.md); draws nothing.
//
// Lines come file by file, so they are not in the order of time. Lines are hostile: whatever is no number, string or
// list where one is expected is left out.

import { Columns } from "./columns.js";
import { byTime, HAPPENINGS, meanwhile } from "./happenings.js";

const MOST_REQUESTS = 200_000;
const MOST_STEPS = 50_000; // of one process
const MOST_TROUBLES = 50_000;
const MOST_STORIES = 20_000; // requests whose lines are kept
const MOST_LINES = 200; // of one request
const MOST_KINDS = 1_000; // of errors
const MOST_PROCESSES = 1_000;
const MOST_NODES = 20_000;
const MOST_HAPPENINGS = 10_000;

const REQUEST_FIELDS = [
  "at", "outcome", "kind", "prompt_tokens", "cached_tokens", "completion_tokens", "forced_tokens", "forward_steps",
  "queue_s", "ttft_s", "tpot_s", "total_s", "preemptions", "attempts",
];
const STEP_FIELDS = [
  "at", "batch", "tokens", "running", "waiting", "plan_s", "match_s", "forward_s", "mask_s", "sample_s", "kv_total",
  "kv_free", "kv_evictable", "kv_pinned", "nodes", "tree_tokens", "steps", "computed_tokens", "cached_tokens",
  "forced_tokens", "masks_computed", "masks_inherited",
];
export const OUTCOMES = ["ok", "refused", "failed", "client_closed"];
const GENERATION = /^([0-9a-f]{32})-\d+$/; // one of several of a request
const OWN_ROUTES = "/dashboard"; // looking at it is no work of the server

export class Store {
  constructor() {
    this.lines = 0;
    this.unread = 0; // lines that are no JSON objects with an event
    this.first = Infinity;
    this.last = -Infinity;
    this.requests = new Columns(REQUEST_FIELDS, MOST_REQUESTS);
    this.accounts = []; // the text of each row of `requests`
    this.troubles = new Columns(["at", "kind"], MOST_TROUBLES);
    this.steps = new Map(); // by process
    this.kinds = new Kinds();
    this.processes = new Map();
    this.happenings = []; // lines about processes, as they came
    this.trees = new Map(); // by executor
    this.stories = new Map(); // by request, the text of its lines
  }

  add(text) {
    const line = parsed(text);
    this.lines += 1;
    if (line === null) {
      this.unread += 1;
      return;
    }
    this.first = Math.min(this.first, line.at);
    this.last = Math.max(this.last, line.at);
    this.#seen(line);
    this.#count(line, text);
    if (typeof line.request_id === "string") this.#tell(line.request_id, text);
  }

  /** The parsed lines of a request, in the order of time, its end (or now), and what happened to processes meanwhile. */
  story(requestId) {
    const lines = (this.stories.get(requestId) ?? []).map(parsed).sort(byTime);
    const [from, to] = spanOf(lines, this.last);
    return { lines, to, ...meanwhile(this, from, to) };
  }

  #count(line, text) {
    if (HAPPENINGS.has(line.event)) this.#happened(line);
    if (line.event === "request") this.#request(line, text);
    else if (line.event === "step") this.#step(line);
    else if (line.event === "tree") this.#tree(line);
    else if (line.event.startsWith("process_") && typeof line.process === "string") this.#process(line);
    if (line.level === "error" || line.level === "warning" || line.level === "critical") {
      this.troubles.push({ at: line.at, kind: this.kinds.number(line.event) });
    }
  }

  #request(line, text) {
    if (String(line.route).startsWith(OWN_ROUTES)) return;
    const outcome = OUTCOMES.indexOf(line.outcome);
    const kind = outcome > 0 ? this.kinds.number(String(line.error ?? `HTTP ${line.status}`)) : NaN;
    this.requests.push({ ...line, outcome, kind });
    this.accounts.push(text);
    if (this.accounts.length > this.requests.length) {
      this.accounts.splice(0, this.accounts.length - this.requests.length);
    }
  }

  #step(line) {
    const name = String(line.service);
    if (!this.steps.has(name)) {
      if (this.steps.size === MOST_PROCESSES) return;
      this.steps.set(name, new Columns(STEP_FIELDS, MOST_STEPS));
    }
    this.steps.get(name).push(line);
  }

  #tree(line) {
    const name = String(line.service);
    const known = this.trees.get(name);
    if (!Array.isArray(line.nodes) || (known && known.at > line.at)) return;
    if (!known && this.trees.size === MOST_PROCESSES) return;
    const nodes = line.nodes.filter(isNode).slice(0, MOST_NODES);
    this.trees.set(name, { at: line.at, nodes, total: Number(line.total) || nodes.length });
  }

  #seen(line) {
    const process = this.#known(line.service);
    if (process === null) return;
    process.first = Math.min(process.first, line.at);
    process.last = Math.max(process.last, line.at);
  }

  #process(line) {
    const process = this.#known(line.process);
    if (process === null || line.at < process.changed) return;
    process.changed = line.at;
    if (line.event === "process_ready") {
      process.state = "ready";
      process.ready = line.at;
      process.restarts = Number(line.restarts) || 0;
    } else if (line.event === "process_ended") {
      process.state = "ended";
    } else if (line.event === "process_killed") {
      process.state = "killed";
    }
    if (line.event !== "process_ready") process.why = String(line.reason ?? `exit code ${line.code}`);
  }

  #known(name) {
    if (typeof name !== "string") return null;
    if (!this.processes.has(name)) {
      if (this.processes.size === MOST_PROCESSES) return null;
      const nothing = { state: "", ready: NaN, restarts: 0, why: "", changed: -Infinity };
      this.processes.set(name, { name, first: Infinity, last: -Infinity, ...nothing });
    }
    return this.processes.get(name);
  }

  #happened(line) {
    if (this.happenings.length === MOST_HAPPENINGS) this.happenings.splice(0, MOST_HAPPENINGS / 4);
    this.happenings.push(line);
  }

  #tell(requestId, text) {
    requestId = requestId.replace(GENERATION, "$1");
    let lines = this.stories.get(requestId);
    if (lines === undefined) {
      if (this.stories.size === MOST_STORIES) this.stories.delete(this.stories.keys().next().value);
      this.stories.set(requestId, (lines = []));
    }
    if (lines.length < MOST_LINES) lines.push(text);
  }
}

/** Names as numbers. After so many all others are one. */
class Kinds {
  constructor() {
    this.names = [];
    this.numbers = new Map();
  }

  number(name) {
    const short = name.slice(0, 80);
    if (!this.numbers.has(short)) {
      if (this.names.length === MOST_KINDS) return MOST_KINDS - 1;
      this.names.push(this.names.length === MOST_KINDS - 1 ? "others" : short);
      this.numbers.set(short, this.names.length - 1);
    }
    return this.numbers.get(short);
  }
}

/** With `at`, in seconds since 1970; null if it is no line of a log. */
export function parsed(text) {
  try {
    const line = JSON.parse(text);
    const at = Date.parse(line.timestamp) / 1000;
    return typeof line.event === "string" && Number.isFinite(at) ? { ...line, at } : null;
  } catch {
    return null;
  }
}

/** From its arrival to its end, or to now. */
function spanOf(lines, now) {
  const account = lines.findLast((line) => line.event === "request");
  if (account) return [account.at - (Number(account.total_s) || 0), account.at];
  return [lines[0]?.at ?? now, now];
}

function isNode(node) {
  return Array.isArray(node) && node.length >= 5 && Number.isFinite(node[0]) && Number.isFinite(node[2]);
}
