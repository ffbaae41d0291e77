// Which charts there are, and the cross-hair that they share.

import { Chart } from "./chart.js";
import { byId } from "./dom.js";
import { count, duration, percent, wholeSeconds } from "./format.js";
import { OUTCOMES } from "./store.js";

const accent = (name, strength = 1) => ({ name, shade: "accent", strength });
const dim = (name, strength = 0.8) => ({ name, shade: "dim", strength });
const PERCENTILES = [accent("p50"), dim("p90", 0.9), { name: "p99", shade: "text", strength: 0.9 }];

const CHARTS = [
  [
    { title: "Tokens per second", hint: "computed: by executors, prompts too", lines: [accent("output"), dim("computed")], format: count },
    (series) => [series.output, series.computed],
  ],
  [
    { title: "Time to first token", lines: PERCENTILES, format: duration, tick: wholeSeconds, kind: "log" },
    ({ ttft }) => [ttft.p50, ttft.p90, ttft.p99],
  ],
  [
    { title: "Between tokens", hint: "a request's mean", lines: PERCENTILES, format: duration, tick: wholeSeconds, kind: "log" },
    ({ tpot }) => [tpot.p50, tpot.p90, tpot.p99],
  ],
  [
    { title: "Requests", lines: [accent("running"), dim("waiting")], format: count },
    (series) => [series.running, series.waiting],
  ],
  [
    { title: "Batch", hint: "of a step: requests, tokens", lines: [accent("requests"), dim("tokens")], format: count },
    (series) => [series.batch, series.step_tokens],
  ],
  [
    { title: "KV pool", hint: "pinned: of requests that run; cached: kept, and can be evicted", lines: [accent("pinned", 0.9), accent("cached", 0.4)], format: percent, kind: "stack", ceiling: 1 },
    (series) => [series.pinned, series.evictable],
  ],
  [
    { title: "Prefix hit rate", hint: "cached part of prompt tokens", lines: [accent("")], format: percent, ceiling: 1 },
    (series) => [series.hit_rate],
  ],
  [
    { title: "Masks per second", hint: "inherited: another request was in this state before", lines: [accent("inherited"), dim("computed")], format: count },
    (series) => [series.masks_inherited, series.masks_computed],
  ],
  [
    { title: "Jump forward", hint: "part of the output that its grammar forced", lines: [accent("forced")], format: percent, ceiling: 1 },
    (series) => [series.forced_share],
  ],
  [
    { title: "Step",
      hint: "where its time goes, at the mean", lines: [dim("plan", 0.5), dim("match", 0.9), accent("forward", 0.9), accent("mask", 0.55), accent("sample", 0.3)], format: duration, kind: "stack" },
    (series) => series.parts,
  ],
  [
    {
      title: "Ended per second",
      lines: [accent(OUTCOMES[0], 0.5), dim(OUTCOMES[1], 0.6), { name: OUTCOMES[2], shade: "bad", strength: 0.9 }, dim("gone", 0.3)],
      format: count,
      kind: "stack",
    },
    (series) => series.outcomes,
  ],
  [
    { title: "Done again", hint: "preempted: gave way for want of room; resubmitted: what it ran on was lost", lines: [accent("preempted"), { name: "resubmitted", shade: "bad", strength: 0.9 }], format: count },
    (series) => [series.preemptions, series.resubmissions],
  ],
];

export class Charts {
  constructor(redraw) {
    this.bucket = null;
    this.charts = CHARTS.map(([shape, pick]) => ({ chart: new Chart(shape), pick }));
    const place = byId("charts");
    place.append(...this.charts.map(({ chart }) => chart.root));
    for (const { chart } of this.charts) {
      chart.canvas.addEventListener("pointermove", (event) => {
        if (chart.range) this.#point(chart.bucketAt(event.clientX));
      });
      chart.canvas.addEventListener("pointerleave", () => this.#point(null));
    }
    place.addEventListener("keydown", (event) => this.#key(event));
    place.addEventListener("blur", () => this.#point(null));
    new ResizeObserver(redraw).observe(place);
  }

  /** A piece for each chart. */
  *draw({ series, range, marks }, colours) {
    if (this.bucket !== null) this.bucket = Math.min(this.bucket, range.buckets - 1);
    this.range = range;
    const sizes = this.charts.map(({ chart }) => chart.size()); // before anything changes, which would lay out anew
    for (const [number, { chart, pick }] of this.charts.entries()) {
      yield;
      chart.set(pick(series), range, marks);
      chart.point(this.bucket).draw(sizes[number], colours);
    }
  }

  #point(bucket) {
    this.bucket = bucket;
    for (const { chart } of this.charts) if (chart.range) chart.point(bucket);
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.#point(null);
    if (step === undefined || !this.range) return;
    const last = this.range.buckets - 1;
    this.#point(Math.min(last, Math.max(0, (this.bucket ?? last) + step)));
    event.preventDefault();
  }
}
