// The row of figures on top. Each carries its exact number as `data-value`.

import { byId, element } from "./dom.js";
import { count, duration, percent } from "./format.js";

/** name, field, value, unit, what stands below it */
const FIGURES = [
  ["Output", "output_rate", (f) => f.output_rate, count, "tokens/s", (f) => `${count(f.completion_tokens)} tokens`],
  ["Requests", "requests", (f) => f.requests, count, "", (f) => `${count(f.request_rate)}/s · ${count(f.running)} running`],
  ["First token, p50", "ttft_p50", (f) => f.ttft.p50, duration, "", (f) => tail(f.ttft)],
  ["Between tokens, p50", "tpot_p50", (f) => f.tpot.p50, duration, "", (f) => tail(f.tpot)],
  ["Waiting now", "waiting", (f) => f.waiting, count, "", (f) => `queued ${duration(f.queue.p50)} · p99 ${duration(f.queue.p99)}`],
  ["Prefix hits", "hit_rate", (f) => f.hit_rate, percent, "", (f) => `${count(f.cached_tokens)} of ${count(f.prompt_tokens)} tokens`],
  ["KV in use", "kv_pinned_share", (f) => f.kv_pinned / f.kv_total, percent, "", (f) => `${percent(f.kv_evictable / f.kv_total)} cached · ${count(f.kv_total)} slots`],
  ["Forced tokens", "forced_share", (f) => f.forced_share, percent, "", (f) => `${count(f.tokens_per_step)} tokens a step`],
  ["Masks inherited", "masks_share", (f) => f.masks_inherited / (f.masks_inherited + f.masks_computed), percent, "", (f) => `${count(f.masks_computed)} computed`],
  ["Errors", "errors", (f) => f.errors, count, "", (f) => `${count(f.failed)} by the server · ${count(f.resubmissions)} resubmitted`],
];

export class Figures {
  constructor() {
    this.parts = FIGURES.map(([name, field]) => {
      const parts = { value: element("span"), more: element("div", { class: "more" }) };
      parts.root = element("div", { class: "figure", "data-figure": field });
      parts.unit = element("small");
      parts.root.append(element("div", { class: "name" }, name), element("div", { class: "value" }, parts.value, parts.unit), parts.more);
      return parts;
    });
    byId("figures").append(...this.parts.map((parts) => parts.root));
  }

  draw({ figures }) {
    FIGURES.forEach(([name, , value, format, unit, more], number) => {
      const { root, value: shown, unit: shownUnit, more: below } = this.parts[number];
      root.dataset.value = value(figures);
      shown.textContent = format(value(figures));
      shown.className = name === "Errors" && figures.failed > 0 ? "bad" : "";
      shownUnit.textContent = unit;
      below.textContent = below.title = more(figures);
    });
  }
}

function tail({ p90, p99 }) {
  return `p90 ${duration(p90)} · p99 ${duration(p99)}`;
}
