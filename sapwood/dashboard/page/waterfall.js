// Where the time of one request went, from its lines: what each attempt at each of its generations did. Pure.
//
// Processes' clocks need not agree to the millisecond, so lengths are those that a process measured itself wherever it
// did; only where a span stands comes from the time of a line.

const SHORTEST_S = 0.0005; // what is shorter is not shown

/** Args: lines: parsed, in the order of time. Returns {from, total_s, attempts: [{name, spans}], longest}. */
export function waterfall(lines) {
  const account = lines.findLast((line) => line.event === "request");
  const end = account?.at ?? lines[lines.length - 1].at;
  const from = account ? end - (Number(account.total_s) || 0) : lines[0].at;
  const first = Number.isFinite(account?.ttft_s) ? from + account.ttft_s : NaN;
  const told = attemptsOf(lines);
  let attempts = told.map((attempt, number) => {
    const next = told.slice(number + 1).find((later) => later.id === attempt.id);
    const spans = ofAttempt(attempt, { from, first, end, next });
    return { name: nameOf(attempt, told), spans: spans.filter(({ length_s }) => length_s >= SHORTEST_S) };
  });
  if (account && !attempts.some(({ spans }) => spans.length)) attempts = [{ name: "", spans: inOrder(account, from) }];
  const spans = attempts.flatMap((attempt) => attempt.spans);
  const longest = spans.reduce((most, span) => (most && most.length_s >= span.length_s ? most : span), null);
  return { from, total_s: end - from, attempts, longest };
}

/** What each stage said, by generation and attempt. */
function attemptsOf(lines) {
  const found = new Map();
  for (const line of lines) {
    if (!Number.isFinite(line.attempt)) continue;
    const key = `${line.request_id} ${line.attempt}`;
    if (!found.has(key)) found.set(key, { id: line.request_id, number: line.attempt, begun: line.at });
    const attempt = found.get(key);
    attempt[line.event] ??= line;
    attempt.last = line.at;
  }
  const all = [...found.values()];
  const several = all.some(({ id }) => id !== all[0].id);
  return several ? all.filter((attempt) => Object.keys(attempt).some((event) => event !== "received" && attempt[event]?.at)) : all;
}

function nameOf({ id, number }, told) {
  const generations = [...new Set(told.map((attempt) => attempt.id))];
  const parts = generations.length > 1 ? [`generation ${generations.indexOf(id) + 1}`] : [];
  if (told.some((attempt) => attempt.number !== told[0].number)) parts.push(`attempt ${number}`);
  return parts.join(", ");
}

function ofAttempt({ number, begun, last, ...told }, { from, first, end, next }) {
  const { encoded, accepted, started, finished } = told;
  const spans = [];
  const add = (name, start, stop, more) => spans.push({ name, start, length_s: stop - start, ...more });
  if (number === 1 && told.received) add("receive", from, told.received.at);
  if (encoded) {
    const work_s = (encoded.encode_s || 0) - (encoded.wait_s || 0);
    add("wait for a tokenizer", told.received || told.resubmitting ? begun : encoded.at - (encoded.encode_s || 0), encoded.at - work_s);
    add("encode", encoded.at - work_s, encoded.at);
  }
  const arrived = accepted?.at ?? encoded?.at ?? begun;
  const waits = started ?? finished ?? {};
  const [compiled, waited] = [arrived + (waits.compile_s || 0), arrived + (waits.compile_s || 0) + (waits.queue_s || 0)];
  add("compile its grammar", arrived, compiled);
  add("queue", compiled, waited);
  const stop = finished?.at ?? next?.begun ?? end;
  if (started) ran(add, waited, stop, first, (finished?.queue_s || 0) - (started.queue_s || 0), !finished && next !== undefined);
  else if (next) add("lost", Math.max(last, waited), next.begun, { lost: true });
  if (finished && !next) add("deliver", finished.at, end);
  return spans;
}

/** Prefill up to the first token, decode from there on. Having given way it waited for its turn again. */
function ran(add, start, stop, first, again_s, lost) {
  const turn = first > start && first < stop ? first : first <= start ? start : stop;
  add("prefill", start, turn, { lost: lost && turn === stop });
  add("queue again", turn, turn + again_s);
  add("decode", turn + again_s, stop, { lost });
}

/** With nothing but the account: its lengths one behind the other, as they come. */
function inOrder(account, from) {
  const spans = [];
  let at = from;
  const add = (name, length_s) => {
    if (!(length_s >= SHORTEST_S)) return;
    spans.push({ name, start: at, length_s });
    at += length_s;
  };
  add("encode", account.encode_s);
  add("compile its grammar", account.compile_s);
  add("queue", account.queue_s);
  const hasOutput = Number.isFinite(account.ttft_s);
  add(hasOutput ? "prefill" : "rest", (hasOutput ? account.ttft_s : account.total_s) - (at - from));
  if (hasOutput) add("decode", account.total_s - (at - from));
  return spans;
}
