// Numbers as people read them. A value that is not there is a dash.

const NONE = "–";

export function count(value) {
  if (!Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 1e9) return `${digits(value / 1e9)}G`;
  if (size >= 1e6) return `${digits(value / 1e6)}M`;
  if (size >= 1e4) return `${digits(value / 1e3)}k`;
  return Number.isInteger(value) || size >= 100 ? Math.round(value).toLocaleString("en") : digits(value);
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return NONE;
  if (seconds === 0) return "0 ms";
  if (seconds < 0.0009995) return `${digits(seconds * 1e6)} µs`;
  if (seconds < 0.9995) return `${digits(seconds * 1e3)} ms`;
  if (seconds < 100) return `${digits(seconds)} s`;
  return age(seconds);
}

/** In one unit, for axes. */
export function wholeSeconds(seconds) {
  return seconds >= 100 ? `${count(seconds)} s` : duration(seconds);
}

export function age(seconds) {
  if (!Number.isFinite(seconds)) return NONE;
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

export function percent(share) {
  if (!Number.isFinite(share)) return NONE;
  const value = 100 * share;
  return `${value === 0 || value >= 99.95 ? Math.round(value) : value.toFixed(1)}%`;
}

export function clock(seconds, withSeconds = true) {
  const options = { hour: "2-digit", minute: "2-digit", hour12: false };
  return new Date(1000 * seconds).toLocaleTimeString("en-GB", withSeconds ? { ...options, second: "2-digit" } : options);
}

/** Three digits that count. */
function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}
