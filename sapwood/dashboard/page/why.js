// What a request's page says in words: which stage took most of its time, and what can be said of the reason. Pure.

import { count, duration, percent } from "./format.js";

const GAVE_WAY = {
  kv: "for want of KV",
  priority: "to a request of higher priority",
  tenant: "to another tenant",
  trial: "because requests run apart after the loss of an executor",
};

/** Args: of waterfall(). Returns [before, name of the stage, behind]. */
export function verdict({ longest, total_s }) {
  if (!longest) return [`${duration(total_s)} in all.`, "", ""];
  return [`${duration(total_s)} in all, most of it `, longest.name, `: ${duration(longest.length_s)}, ${percent(longest.length_s / total_s)}.`];
}

/** Sentences. Args: lines, to, outages, gaps, running: of the store's story. */
export function reasons({ from, longest }, { lines, to, outages, gaps, running }) {
  const account = lines.findLast((line) => line.event === "request") ?? {};
  const since = (at) => `+${duration(Math.max(0, at - from))}`;
  const told = outages.map(({ process, what, start, stop }) =>
    what === "stood still" ? `${process} stood still for ${duration(stop - start)}, until ${since(stop)}.` : `${process} ${what} at ${since(start)}.`,
  );
  const away_s = gaps.reduce((sum, { start, stop }) => sum + Math.min(stop, to) - Math.max(start, from), 0);
  if (away_s > 0) told.push(`For ${duration(away_s)} there was no executor.`);
  return [...told, ...gaveWay(lines), ...(longest?.name === "prefill" ? prefill(lines, account, longest, running) : [])];
}

function gaveWay(lines) {
  const reasons = lines.filter(({ event }) => event === "preempted").map(({ reason }) => String(reason ?? "once"));
  return [...new Set(reasons)].map((reason) => {
    const times = reasons.filter((one) => one === reason).length;
    return `It gave way ${Object.hasOwn(GAVE_WAY, reason) ? GAVE_WAY[reason] : reason}${times > 1 ? `, ${times} times` : ""}.`;
  });
}

function prefill(lines, account, longest, running) {
  const matched = lines.find(({ event }) => event === "matched") ?? account;
  const computed = matched.uncached_tokens ?? matched.prompt_tokens - matched.cached_tokens;
  if (!(computed > 0)) return [];
  const speed = `${count(computed)} tokens computed, ${count(computed / longest.length_s)} a second`;
  const steps = account.forward_steps > 0 ? `; ${count(account.forward_steps)} steps in all` : "";
  const beside = running > 1 ? `, beside up to ${count(running - 1)} other requests` : "";
  return [`${speed}${steps}${beside}.`];
}
