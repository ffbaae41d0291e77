// Where the time of one request went, from its lines: what each attempt at each of its generations did. Pure.
//
// Processes' clocks need not agree to the millisecond, so lengths are those that a process measured itself wherever it
// did; only where a span stands comes from the time of a line. A span is {name, pieces: [{start, stop}], length_s, lost}.

const SHORTEST_S = 0.0005; // what is shorter is not shown

/** Args: lines: parsed, in the order of time; gaps: {start, stop} without an executor. Returns {from, total_s, attempts: [{name, spans}], longest}. */
export function waterfall(lines, gaps = []) {
  const account = lines.findLast((line) => line.event === "request");
  const end = account?.at ?? lines[lines.length - 1].at;
  const from = account ? end - (Number(account.total_s) || 0) : lines[0].at;
  const first = Number.isFinite(account?.ttft_s) ? from + account.ttft_s : NaN;
  const told = attemptsOf(lines);
  let attempts = told.map((attempt, number) => {
    const next = told.slice(number + 1).find((later) => later.id === attempt.id);
    return { name: nameOf(attempt, told), spans: spansOf(pieces(attempt, { from, first, end, next }), gaps) };
  });
  if (account && !attempts.some(({ spans }) => spans.length)) attempts = [{ name: "", spans: spansOf(inOrder(account, from), []) }];
  const spans = attempts.flatMap((attempt) => attempt.spans);
  const longest = spans.reduce((most, span) => (most && most.length_s >= span.length_s ? most : span), null);
  return { from, total_s: end - from, attempts, longest };
}

/** What each stage said, by generation and attempt: the first line of each event, and `all`. */
function attemptsOf(lines) {
  const found = new Map();
  for (const line of lines) {
    if (!Number.isFinite(line.attempt)) continue;
    const key = `${line.request_id} ${line.attempt}`;
    if (!found.has(key)) found.set(key, { id: line.request_id, number: line.attempt, begun: line.at, all: [] });
    const attempt = found.get(key);
    attempt[line.event] ??= line;
    attempt.all.push(line);
    attempt.last = line.at;
  }
  const all = [...found.values()];
  const several = all.some(({ id }) => id !== all[0].id);
  return several ? all.filter((attempt) => attempt.all.some(({ event }) => event !== "received")) : all;
}

function nameOf({ id, number }, told) {
  const generations = [...new Set(told.map((attempt) => attempt.id))];
  const parts = generations.length > 1 ? [`generation ${generations.indexOf(id) + 1}`] : [];
  if (told.some((attempt) => attempt.number !== told[0].number)) parts.push(`attempt ${number}`);
  return parts.join(", ");
}

// --- pieces of time ------------------------------------------------------------------------------------------------

function pieces(attempt, { from, first, end, next }) {
  const { number, begun, last, received, encoded, accepted, started, finished } = attempt;
  const found = [];
  const add = (name, start, stop, more) => found.push({ name, start, stop, ...more });
  if (number === 1 && received) add("receive", from, received.at);
  if (encoded) encoding(add, encoded, received || attempt.resubmitting ? begun : NaN);
  const arrived = accepted?.at ?? encoded?.at ?? begun;
  const waits = started ?? finished ?? {};
  const [compiled, waited] = [arrived + (waits.compile_s || 0), arrived + (waits.compile_s || 0) + (waits.queue_s || 0)];
  add("compile its grammar", arrived, compiled);
  add("queue", compiled, waited, { waits: true });
  const isLost = next !== undefined && (!finished || finished.reason === "lost");
  if (started) ran(add, attempt, { start: waited, stop: finished?.at ?? next?.begun ?? end, first, isLost });
  else if (next) add("lost", Math.max(last, waited), next.begun, { lost: true });
  if (finished && !next) add("deliver", finished.at, end);
  return found;
}

function encoding(add, { at, encode_s, wait_s }, handedOver) {
  const came = at - (encode_s || 0);
  add("on the way to the tokenizer", handedOver, came);
  add("waiting in the tokenizer", came, came + (wait_s || 0));
  add("encode", came + (wait_s || 0), at);
}

/** Prefill up to the first output, decode from there on. If that came in an earlier attempt, nothing tells them apart. */
function ran(add, attempt, { start, stop, first, isLost }) {
  const turn = first > start && first < stop ? first : first <= start ? start : stop;
  const pauses = pausesOf(attempt, turn, stop);
  const add_run = (name, from, to) => without({ start: from, stop: to }, pauses).forEach((piece) => add(name, piece.start, piece.stop, { lost: isLost && to === stop }));
  if (turn > start) add_run("prefill", start, turn);
  add_run(turn > start || attempt.number === 1 ? "decode" : "prefill and decode", turn, stop);
  for (const { start: gaveWay, stop: again, why } of pauses) add(why, gaveWay, again, { waits: true });
}

/** From each time that it gave way until it ran again. Where no line says when, they are drawn as one. */
function pausesOf({ all, started, finished }, turn, stop) {
  const gaveWay = all.filter(({ event }) => event === "preempted");
  if (!gaveWay.length) {
    const again_s = (finished?.queue_s || 0) - (started.queue_s || 0);
    return again_s > 0 ? [{ start: turn, stop: Math.min(stop, turn + again_s), why: "gave way" }] : [];
  }
  return gaveWay.map(({ at, reason }) => {
    const again = all.find((line) => line.event === "matched" && line.at > at)?.at ?? stop;
    return { start: at, stop: again, why: reason ? `gave way (${reason})` : "gave way" };
  });
}

/** With nothing but the account: its lengths one behind the other, as they come. */
function inOrder(account, from) {
  const found = [];
  let at = from;
  const add = (name, length_s) => {
    if (!(length_s >= SHORTEST_S)) return;
    found.push({ name, start: at, stop: at + length_s });
    at += length_s;
  };
  add("receive", account.read_s);
  add("wait for a tokenizer", account.tokenizer_wait_s);
  add("encode", account.encode_s);
  add("compile its grammar", account.compile_s);
  add("queue", account.queue_s);
  const hasOutput = Number.isFinite(account.ttft_s);
  add(hasOutput ? "prefill" : "rest", (hasOutput ? account.ttft_s : account.total_s) - (at - from));
  if (hasOutput) add("decode", account.total_s - (at - from));
  return found;
}

// --- spans of pieces -----------------------------------------------------------------------------------------------

/** Pieces of one name are one span. Who waits while there is no executor waits for one. */
function spansOf(found, gaps) {
  const spans = new Map();
  for (const { name, waits, lost = false, ...piece } of found) {
    put(spans, lost ? `${name}, lost` : name, waits ? without(piece, gaps) : [piece], lost);
    if (waits) put(spans, "no executor", within(piece, gaps), true);
  }
  return [...spans.values()].filter(({ length_s }) => length_s >= SHORTEST_S);
}

function put(spans, name, added, lost) {
  const span = spans.get(name) ?? { name, pieces: [], length_s: 0, lost };
  for (const piece of added) {
    if (!(piece.stop > piece.start)) continue;
    span.pieces.push(piece);
    span.length_s += piece.stop - piece.start;
  }
  spans.set(name, span);
}

/** What holes, in the order of time, leave of a piece. */
function without({ start, stop }, holes) {
  const left = [];
  for (const hole of within({ start, stop }, holes)) {
    left.push({ start, stop: hole.start });
    start = hole.stop;
  }
  return [...left, { start, stop }];
}

function within({ start, stop }, holes) {
  const cut = holes.map((hole) => ({ start: Math.max(start, hole.start), stop: Math.min(stop, hole.stop) }));
  return cut.filter((piece) => piece.stop > piece.start);
}
