// What happened to processes while a request ran: which was away, which stood still, when there was no executor. Pure.

export const HAPPENINGS = new Set([
  "ready", "stopping", "broken", "failed", "cannot_start", "stalled", "peer_joined", "peer_left", "process_ready",
  "process_ended", "process_killed", "never_ready",
]);
export const ENDS = new Set(["process_ended", "process_killed"]);
const MOST_TOLD = 100;

export const byTime = (one, other) => one.at - other.at;

/** Args: store: of all lines; from, to: in seconds. Returns {events, outages, gaps, running}, in the order of time. */
export function meanwhile({ happenings, steps }, from, to) {
  const sorted = [...happenings].sort(byTime);
  const told = sorted.filter((line) => line.at >= from && line.at - stood(line) <= to && (line.at <= to || stood(line)));
  const isWithin = ({ start, stop }) => start < to && stop > from;
  return {
    events: told.slice(0, MOST_TOLD),
    outages: [...outages(sorted), ...sorted.filter(stood).map(stall)].filter(isWithin),
    gaps: gapsOf(sorted, steps).filter(isWithin),
    running: mostRunning(steps, from, to),
  };
}

/** Ends and starts, which the charts mark. */
export function marks(happenings, { from, to }) {
  const isMark = ({ event, at }) => at >= from && at <= to && (ENDS.has(event) || event === "process_ready");
  const found = happenings.filter(isMark).slice(-MOST_TOLD);
  return found.map((line) => ({ at: line.at, name: String(line.process), isEnd: ENDS.has(line.event) }));
}

/** Each process from its end until it was ready again. */
function outages(sorted) {
  const found = [];
  const open = new Map();
  for (const line of sorted) {
    if (ENDS.has(line.event)) {
      const why = String(line.reason ?? `exit code ${line.code}`);
      found.push({ process: String(line.process), what: `ended (${why})`, start: line.at, stop: Infinity });
      open.set(line.process, found.at(-1));
    } else if (line.event === "process_ready" && open.has(line.process)) {
      open.get(line.process).stop = line.at;
      open.delete(line.process);
    }
  }
  return found;
}

function stall(line) {
  return { process: String(line.service), what: "stood still", start: line.at - line.stalled_s, stop: line.at };
}

/** For how long, up to this line. */
function stood({ event, stalled_s }) {
  return event === "stalled" && stalled_s > 0 ? stalled_s : 0;
}

/** When the scheduler had no executor. A log that begins late may not know of one: then it steps meanwhile. */
export function gapsOf(happenings, steps) {
  const found = [];
  const there = new Set();
  for (const { event, service, role, peer, at } of [...happenings].sort(byTime)) {
    const isPeer = role === "executor" && String(service).startsWith("scheduler");
    if (isPeer && event === "peer_joined") {
      if (found.at(-1)?.stop === Infinity) found.at(-1).stop = at;
      there.add(peer);
    } else if (isPeer && event === "peer_left") {
      there.delete(peer);
      if (!there.size && found.at(-1)?.stop !== Infinity) found.push({ start: at, stop: Infinity });
    }
  }
  return found.filter(({ start, stop }) => !executorSteps(steps, start, stop));
}

function executorSteps(steps, start, stop) {
  const executors = [...steps].filter(([name]) => name.startsWith("executor"));
  return executors.some(([, { of, length }]) => of.at.subarray(0, length).some((at) => at > start && at < stop));
}

/** The most requests that ran at a time; NaN if that was not said. */
function mostRunning(steps, from, to) {
  let most = NaN;
  for (const [name, { of, length }] of steps) {
    if (!name.startsWith("scheduler")) continue;
    for (let row = 0; row < length; row++) {
      if (of.at[row] >= from && of.at[row] <= to && !(of.running[row] <= most)) most = of.running[row];
    }
  }
  return most;
}
