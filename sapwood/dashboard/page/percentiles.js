// Percentiles of values, in all and by bucket of time. By nearest rank: each is a value that was really there.

export function percentile(sorted, share) {
  return sorted.length ? sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] : NaN;
}

/** Of finite values. */
export function summary(values) {
  const sorted = values.filter(Number.isFinite).sort();
  return { count: sorted.length, ...named(sorted) };
}

/** `places`: the bucket of each value, or one out of range. */
export function byBucket(values, places, buckets) {
  const starts = new Uint32Array(buckets + 1);
  const counted = (row) => places[row] >= 0 && places[row] < buckets && Number.isFinite(values[row]);
  for (let row = 0; row < values.length; row++) if (counted(row)) starts[places[row] + 1] += 1;
  for (let bucket = 0; bucket < buckets; bucket++) starts[bucket + 1] += starts[bucket];
  const grouped = new Float64Array(starts[buckets]);
  const next = starts.slice();
  for (let row = 0; row < values.length; row++) if (counted(row)) grouped[next[places[row]]++] = values[row];
  const series = { p50: empty(buckets), p90: empty(buckets), p99: empty(buckets) };
  for (let bucket = 0; bucket < buckets; bucket++) {
    const found = named(grouped.subarray(starts[bucket], starts[bucket + 1]).sort());
    for (const name of Object.keys(series)) series[name][bucket] = found[name];
  }
  return series;
}

export function empty(buckets) {
  return new Float64Array(buckets).fill(NaN);
}

function named(sorted) {
  return { p50: percentile(sorted, 0.5), p90: percentile(sorted, 0.9), p99: percentile(sorted, 0.99) };
}
