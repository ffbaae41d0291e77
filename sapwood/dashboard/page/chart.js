// One chart on a canvas: lines or a stack over buckets of time, with labels that name the values at the cross-hair.

import { element } from "./dom.js";
import { clock } from "./format.js";

const LEFT = 50;
const RIGHT = 6;
const TOP = 6;
const BOTTOM = 18;

/** Args: lines: [{name, shade, strength}]; kind: "lines", "stack" or "log"; ceiling: the largest value there can be. */
export class Chart {
  constructor({ title, hint, lines, format, tick = format, kind = "lines", ceiling = 0 }) {
    Object.assign(this, { lines, format, tick, kind, ceiling, marks: [] });
    this.canvas = element("canvas", { role: "img", "aria-label": title });
    this.values = lines.map(() => element("b"));
    const labels = lines.map((line, number) => {
      const label = element("span", { class: "label" }, line.name ? `${line.name} ` : "", this.values[number]);
      label.style.setProperty("--shade", `var(--${line.shade})`);
      label.style.setProperty("--strength", line.strength);
      return label;
    });
    this.cross = element("div", { class: "cross", hidden: "" });
    const head = element("div", { class: "head" }, element("h2", { title: hint }, title), ...labels);
    this.root = element("div", { class: "panel chart" }, head, this.canvas, this.cross);
    this.series = lines.map(() => new Float64Array(0));
  }

  /** Args: marks: [{bucket, name, isEnd}], of processes that ended or came. */
  set(series, range, marks) {
    Object.assign(this, { series, range, marks });
  }

  /** Args: bucket: whose values are named; null: the newest. */
  point(bucket) {
    this.cross.hidden = bucket === null;
    this.series.forEach((values, number) => {
      this.values[number].textContent = this.format(bucket === null ? newest(values) : values[bucket]);
    });
    if (bucket !== null) this.#setCross(bucket);
    const marks = this.marks.filter((mark) => mark.bucket === bucket);
    this.cross.dataset.marks = marks.map(({ name, isEnd }) => `${name} ${isEnd ? "ended" : "ready"}`).join(", ");
    return this;
  }

  #setCross(bucket) {
    const { offsetLeft, offsetTop, clientWidth } = this.canvas;
    this.cross.style.left = `${offsetLeft + this.#x(bucket, clientWidth)}px`;
    this.cross.style.top = `${offsetTop + TOP}px`;
  }

  /** The bucket below a place on the screen. */
  bucketAt(clientX) {
    const box = this.canvas.getBoundingClientRect();
    const share = (clientX - box.left - LEFT) / Math.max(1, box.width - LEFT - RIGHT);
    return share < 0 || share > 1 ? null : Math.round(share * (this.range.buckets - 1));
  }

  size() {
    return [this.canvas.clientWidth, this.canvas.clientHeight];
  }

  draw([width, height], colours) {
    const pen = prepared(this.canvas, width, height);
    const scale = this.#scale();
    const y = (value) => TOP + (1 - scale.place(value)) * (height - TOP - BOTTOM);
    this.#drawAxes(pen, scale, y, width, height, colours);
    this.#drawMarks(pen, width, height, colours);
    if (this.kind === "stack") this.#drawStack(pen, y, width, colours);
    else [...this.lines.keys()].reverse().forEach((number) => this.#drawLine(pen, number, y, width, colours));
    pen.globalAlpha = 1;
  }

  #x(bucket, width) {
    return LEFT + ((width - LEFT - RIGHT) * bucket) / Math.max(1, this.range.buckets - 1);
  }

  #scale() {
    const all = this.kind === "stack" ? [stacked(this.series)] : this.series;
    let [low, high] = [Infinity, 0];
    for (const values of all) {
      for (const value of values) {
        if (value > high) high = value;
        if (value > 0 && value < low) low = value;
      }
    }
    return this.kind === "log" && high > 0 ? logScale(low, high) : linearScale(this.ceiling || high || 1);
  }

  #drawAxes(pen, scale, y, width, height, colours) {
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (const tick of scale.ticks) {
      const at = Math.round(y(tick)) + 0.5;
      pen.strokeStyle = colours.line;
      pen.lineWidth = 1;
      stroke(pen, [LEFT, at], [width - RIGHT, at]);
      pen.fillStyle = colours.dim;
      pen.fillText(short(this.tick(tick)), LEFT - 6, at);
    }
    pen.textBaseline = "alphabetic";
    pen.fillStyle = colours.dim;
    const { start, bucket_s, buckets } = this.range;
    for (const [share, align] of [[0, "left"], [0.5, "center"], [1, "right"]]) {
      pen.textAlign = align;
      const bucket = Math.round(share * (buckets - 1));
      pen.fillText(clock(start + bucket * bucket_s, buckets * bucket_s < 7200), this.#x(bucket, width), height - 3);
    }
  }

  /** Where a process ended, or was ready. */
  #drawMarks(pen, width, height, colours) {
    pen.lineWidth = 1;
    for (const { bucket, isEnd } of this.marks) {
      const x = Math.round(this.#x(bucket, width)) + 0.5;
      pen.strokeStyle = isEnd ? colours.bad : colours.faint;
      stroke(pen, [x, TOP], [x, height - BOTTOM]);
    }
  }

  #drawLine(pen, number, y, width, colours) {
    const { shade, strength } = this.lines[number];
    const values = this.series[number];
    pen.strokeStyle = pen.fillStyle = colours[shade];
    pen.globalAlpha = strength;
    pen.lineWidth = 1.5;
    pen.lineJoin = "round";
    pen.beginPath();
    let before = -1;
    for (let bucket = 0; bucket < values.length; bucket++) {
      if (Number.isNaN(values[bucket])) continue;
      const [x, at] = [this.#x(bucket, width), y(values[bucket])];
      if (before >= 0) pen.lineTo(x, at);
      else pen.moveTo(x, at);
      if (before < 0 || before < bucket - 1) pen.rect(x - 0.5, at - 0.5, 1, 1), pen.moveTo(x, at);
      before = this.#joins(values, bucket) ? bucket : -1;
    }
    pen.stroke();
  }

  /** A gap of a few empty buckets is bridged, but not where a process ended; a longer one is shown. */
  #joins(values, bucket) {
    const isEnd = this.marks.some((mark) => mark.isEnd && mark.bucket >= bucket - 1 && mark.bucket <= bucket + 1);
    if (isEnd && Number.isNaN(values[bucket + 1])) return false;
    for (let next = bucket + 1; next <= bucket + 5 && next < values.length; next++) {
      if (!Number.isNaN(values[next])) return true;
    }
    return false;
  }

  #drawStack(pen, y, width, colours) {
    const below = new Float64Array(this.range.buckets);
    this.series.forEach((values, number) => {
      pen.fillStyle = colours[this.lines[number].shade];
      pen.globalAlpha = this.lines[number].strength;
      pen.beginPath();
      values.forEach((value, bucket) => {
        const at = y(below[bucket] + (value || 0));
        if (bucket === 0) pen.moveTo(this.#x(0, width), at);
        else pen.lineTo(this.#x(bucket, width), at);
      });
      for (let bucket = values.length - 1; bucket >= 0; bucket--) {
        pen.lineTo(this.#x(bucket, width), y(below[bucket]));
        below[bucket] += values[bucket] || 0;
      }
      pen.fill();
    });
  }
}

/** A canvas as sharp as the screen, empty, and what draws on it. */
export function prepared(canvas, width, height) {
  const sharpness = window.devicePixelRatio || 1;
  const [pixelsWide, pixelsHigh] = [Math.round(width * sharpness), Math.round(height * sharpness)];
  if (canvas.width !== pixelsWide || canvas.height !== pixelsHigh) {
    canvas.width = pixelsWide;
    canvas.height = pixelsHigh;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(sharpness, 0, 0, sharpness, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

function linearScale(high) {
  const step = [1, 2, 2.5, 5, 10].map((size) => size * 10 ** Math.floor(Math.log10(high / 2))).find((size) => high / size <= 3);
  const top = Math.ceil(high / step - 1e-9) * step;
  const ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, number) => number * step);
  return { ticks, place: (value) => value / top };
}

function logScale(low, high) {
  const [from, to] = [Math.floor(Math.log10(low)), Math.max(Math.ceil(Math.log10(high)), Math.floor(Math.log10(low)) + 1)];
  const every = Math.ceil((to - from) / 4);
  const ticks = [];
  for (let power = from; power <= to; power += every) ticks.push(10 ** power);
  return { ticks, place: (value) => Math.max(0, (Math.log10(value) - from) / (to - from)) };
}

function stacked(series) {
  return series[0].map((_, bucket) => series.reduce((sum, values) => sum + (values[bucket] || 0), 0));
}

function newest(values) {
  for (let bucket = values.length - 1; bucket >= 0; bucket--) if (!Number.isNaN(values[bucket])) return values[bucket];
  return NaN;
}

/** Ticks are round numbers. */
function short(text) {
  return text.replace(/\.0+(?=\D|$)/, "");
}

function stroke(pen, from, to) {
  pen.beginPath();
  pen.moveTo(...from);
  pen.lineTo(...to);
  pen.stroke();
}
