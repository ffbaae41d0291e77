// What is shown of a store for a range of time: sums, percentiles, and series of buckets. Pure.

import { gapsOf, marks } from "./happenings.js";
import { lastBy, stated, untilEnd } from "./latest.js";
import { listed } from "./listing.js";
import { byBucket, empty, summary } from "./percentiles.js";
import { OUTCOMES } from "./store.js";

const MOST_BUCKETS = 180;
const BUCKET_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];
const PARTS = ["plan_s", "match_s", "forward_s", "mask_s", "sample_s"];

/** Args: span: {from, to} in seconds, and whether it goes on; order, filter: of the list of requests. */
export function view(store, span, { order, filter }) {
  const range = rangeOf(span);
  const requests = ofRequests(store, range);
  const steps = ofSteps(store, range);
  const shown = Math.max(1, range.buckets - (span.goesOn ? 1 : 0)); // the last one has only begun
  return {
    range: { ...range, buckets: shown },
    lines: store.lines,
    unread: store.unread,
    series: cut({ ...requests.series, ...steps.series }, shown),
    figures: { ...requests.figures, ...steps.figures },
    errors: kindsIn(store.kinds, store.requests, range),
    marks: marks(store.happenings, range).map((mark) => ({ ...mark, bucket: place(mark.at, range) })),
    troubles: kindsIn(store.kinds, store.troubles, range),
    processes: [...store.processes.values()],
    requests: listed(store, range, order, filter),
  };
}

function rangeOf({ from, to }) {
  const span_s = Math.max(1, to - from);
  const bucket_s = BUCKET_S.find((size) => span_s / size <= MOST_BUCKETS) ?? Math.ceil(span_s / MOST_BUCKETS);
  const start = Math.floor(from / bucket_s) * bucket_s;
  return { from, to, start, bucket_s, buckets: Math.floor((to - start) / bucket_s) + 1 };
}

function cut(series, shown) {
  if (series instanceof Float64Array) return series.subarray(0, shown);
  if (Array.isArray(series)) return series.map((one) => cut(one, shown));
  return Object.fromEntries(Object.entries(series).map(([name, one]) => [name, cut(one, shown)]));
}

const place = (at, { from, to, start, bucket_s }) => (at < from || at > to ? -1 : Math.floor((at - start) / bucket_s));

// --- requests ------------------------------------------------------------------------------------------------------

function ofRequests({ requests }, range) {
  const { of, length } = requests;
  const places = new Int32Array(length);
  for (let row = 0; row < length; row++) places[row] = place(of.at[row], range);
  const sums = sumsOf(of, places);
  const sum = (name) => sumBy(of[name], places, range.buckets);
  const within = (name) => of[name].subarray(0, length).filter((_, row) => places[row] >= 0);
  const seconds = range.bucket_s;
  const output = spread(of, length, range);
  return {
    series: {
      output: output.map((tokens) => tokens / seconds),
      ttft: byBucket(of.ttft_s.subarray(0, length), places, range.buckets),
      tpot: byBucket(of.tpot_s.subarray(0, length), places, range.buckets),
      hit_rate: ratio(sum("cached_tokens"), sum("prompt_tokens")),
      forced_share: ratio(sum("forced_tokens"), sum("completion_tokens")),
      tokens_per_step: ratio(sum("completion_tokens"), sum("forward_steps")),
      preemptions: sum("preemptions"),
      resubmissions: sumBy(of.attempts.map((count) => count - 1), places, range.buckets),
      outcomes: OUTCOMES.map((_, number) =>
        countBy(places, range.buckets, (row) => of.outcome[row] === number).map((count) => count / seconds),
      ),
    },
    figures: {
      ...sums,
      output_rate: total(output) / Math.max(1, range.to - range.start),
      request_rate: sums.requests / Math.max(1, range.to - range.from),
      hit_rate: sums.cached_tokens / sums.prompt_tokens,
      forced_share: sums.forced_tokens / sums.completion_tokens,
      tokens_per_step: sums.completion_tokens / sums.forward_steps,
      ttft: summary(within("ttft_s")),
      tpot: summary(within("tpot_s")),
      queue: summary(within("queue_s")),
      total: summary(within("total_s")),
    },
  };
}

function sumsOf(of, places) {
  const names = ["prompt_tokens", "cached_tokens", "completion_tokens", "forced_tokens", "forward_steps", "preemptions"];
  const sums = { requests: 0, errors: 0, failed: 0, resubmissions: 0, ...Object.fromEntries(names.map((name) => [name, 0])) };
  for (let row = 0; row < places.length; row++) {
    if (places[row] < 0) continue;
    sums.requests += 1;
    sums.errors += of.outcome[row] > 0 ? 1 : 0;
    sums.failed += OUTCOMES[of.outcome[row]] === "failed" ? 1 : 0;
    sums.resubmissions += of.attempts[row] > 1 ? of.attempts[row] - 1 : 0;
    for (const name of names) sums[name] += of[name][row] || 0;
  }
  return sums;
}

/** Output tokens by bucket: those of a request lie evenly between its first one and its end. */
function spread(of, length, { start, bucket_s, buckets }) {
  const tokens = new Float64Array(buckets);
  for (let row = 0; row < length; row++) {
    const count = of.completion_tokens[row];
    const to = (of.at[row] - start) / bucket_s;
    if (!(count > 0) || to < 0) continue;
    const took_s = Math.max(0, of.total_s[row] - (of.ttft_s[row] || 0)) || 0;
    const from = to - took_s / bucket_s;
    if (from >= buckets) continue;
    if (to - from < 1e-9) {
      if (to < buckets) tokens[Math.floor(to)] += count;
      continue;
    }
    for (let bucket = Math.max(0, Math.floor(from)); bucket < Math.min(buckets, to); bucket++) {
      tokens[bucket] += (count * (Math.min(to, bucket + 1) - Math.max(from, bucket))) / (to - from);
    }
  }
  return tokens;
}

// --- steps ---------------------------------------------------------------------------------------------------------

function ofSteps({ steps, happenings }, range) {
  const named = [...steps].sort();
  const ofExecutors = named.filter(([name]) => name.startsWith("executor"));
  const executors = ofExecutors.map(([, columns]) => columns);
  const schedulers = named.filter(([name]) => name.startsWith("scheduler")).map(([, columns]) => columns);
  const latestOf = ([process, columns], name) => lastBy(columns, name, range, untilEnd(process, happenings));
  const latest = (name) => summed(ofExecutors.map((one) => latestOf(one, name)), range.buckets);
  const silent = gapsOf(happenings, steps);
  const now = (name) => summed(schedulers.map((columns) => lastBy(columns, name, range, stated(columns, silent))), range.buckets);
  const sum = (name) => summed(executors.map((columns) => sumOfColumn(columns, name, range)), range.buckets);
  const rate = (name) => sum(name).map((value) => value / range.bucket_s);
  const kv = Object.fromEntries(
    ["total", "free", "evictable", "pinned"].map((part) => [part, latest(`kv_${part}`)]),
  );
  const [computed, inherited] = [sum("masks_computed"), sum("masks_inherited")];
  const last = (series) => series[series.length - 1];
  return {
    series: {
      computed: rate("computed_tokens"),
      waiting: now("waiting"),
      running: now("running"),
      batch: meanBy(executors, "batch", range),
      step_tokens: meanBy(executors, "tokens", range),
      pinned: ratio(kv.pinned, kv.total),
      evictable: ratio(kv.evictable, kv.total),
      masks_computed: computed.map((count) => count / range.bucket_s),
      masks_inherited: inherited.map((count) => count / range.bucket_s),
      parts: PARTS.map((part) => meanBy(part === "plan_s" ? schedulers : executors, part, range)),
    },
    figures: {
      computed_tokens: total(sum("computed_tokens")),
      steps: total(sum("steps")),
      masks_computed: total(computed),
      masks_inherited: total(inherited),
      waiting: last(now("waiting")),
      running: last(now("running")),
      kv_total: last(kv.total),
      kv_pinned: last(kv.pinned),
      kv_evictable: last(kv.evictable),
      tree_nodes: last(latest("nodes")),
      tree_tokens: last(latest("tree_tokens")),
    },
  };
}

function sumOfColumn({ of, length }, name, range) {
  const places = of.at.subarray(0, length).map((at) => place(at, range));
  return sumBy(of[name], places, range.buckets);
}

function meanBy(sources, name, range) {
  const [sums, counts] = [new Float64Array(range.buckets), new Float64Array(range.buckets)];
  for (const { of, length } of sources) {
    for (let row = 0; row < length; row++) {
      const bucket = place(of.at[row], range);
      if (bucket < 0 || Number.isNaN(of[name][row])) continue;
      sums[bucket] += of[name][row];
      counts[bucket] += 1;
    }
  }
  return ratio(sums, counts);
}

// --- kinds of errors and of troubles -------------------------------------------------------------------------------

function kindsIn(kinds, { of, length }, range) {
  const found = new Map();
  for (let row = 0; row < length; row++) {
    const kind = of.kind[row];
    if (Number.isNaN(kind) || place(of.at[row], range) < 0) continue;
    const known = found.get(kind) ?? { name: kinds.names[kind], count: 0, last: -Infinity };
    known.count += 1;
    known.last = Math.max(known.last, of.at[row]);
    found.set(kind, known);
  }
  return [...found.values()].sort((one, other) => other.count - one.count);
}

// --- buckets -------------------------------------------------------------------------------------------------------

function sumBy(values, places, buckets) {
  const sums = new Float64Array(buckets);
  for (let row = 0; row < places.length; row++) if (places[row] >= 0) sums[places[row]] += values[row] || 0;
  return sums;
}

function countBy(places, buckets, counts) {
  const found = new Float64Array(buckets);
  for (let row = 0; row < places.length; row++) if (places[row] >= 0 && counts(row)) found[places[row]] += 1;
  return found;
}

function summed(all, buckets) {
  if (!all.length) return empty(buckets);
  const said = (bucket) => all.map((values) => values[bucket]).filter((value) => !Number.isNaN(value));
  return new Float64Array(buckets).map((_, bucket) => (said(bucket).length ? total(said(bucket)) : NaN));
}

function ratio(parts, wholes) {
  return parts.map((part, bucket) => (wholes[bucket] > 0 ? part / wholes[bucket] : NaN));
}

function total(values) {
  return values.reduce((sum, value) => sum + value, 0);
}
