// The newest value of a column by bucket of time, and how long it stands for what comes after it. Pure.

import { ENDS } from "./happenings.js";
import { empty } from "./percentiles.js";

const MISSING = 3; // lines that may be missing before nobody knows any more
const LATE = 100; // lines that tell how often there is one

/** Where nothing was said it is what it was before, if that holds. Args: holds(since, until): whether it does. */
export function lastBy({ of, length }, name, { start, bucket_s, buckets }, holds) {
  const values = empty(buckets);
  const times = new Float64Array(buckets).fill(-Infinity);
  let [before, before_at] = [NaN, -Infinity];
  for (let row = 0; row < length; row++) {
    const [at, value] = [of.at[row], of[name][row]];
    const bucket = Math.floor((at - start) / bucket_s);
    if (Number.isNaN(value) || bucket >= buckets) continue;
    if (bucket < 0) {
      if (at >= before_at) [before, before_at] = [value, at];
    } else if (at >= times[bucket]) {
      [values[bucket], times[bucket]] = [value, at];
    }
  }
  for (let bucket = 0; bucket < buckets; bucket++) {
    if (times[bucket] > -Infinity) [before, before_at] = [values[bucket], times[bucket]];
    else if (before === 0 || holds(before_at, start + bucket * bucket_s)) values[bucket] = before;
  }
  return values;
}

/** What an executor has is gone with it. */
export function untilEnd(process, happenings) {
  const ends = happenings.filter((line) => line.process === process && ENDS.has(line.event)).map(({ at }) => at);
  return (since, until) => !ends.some((at) => since < at && at <= until);
}

/** As long as a few lines are apart at the median, and not beyond the loss of the last executor. */
export function stated({ of, length }, gaps) {
  const at = of.at.subarray(Math.max(0, length - LATE), length);
  const apart = at.subarray(1).map((time, row) => time - at[row]).sort();
  const held_s = MISSING * Math.max(1, apart[Math.floor(apart.length / 2)] || 0);
  return (since, until) => until - since <= held_s && !gaps.some(({ start }) => since < start && start <= until);
}
