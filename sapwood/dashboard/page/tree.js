// The radix tree of an executor: drawn, pointed at, walked through with the arrow keys, and looked into.

import { prepared } from "./chart.js";
import { byId, choice } from "./dom.js";
import { age, count } from "./format.js";
import { layout } from "./tree_layout.js";

const AXIS = 20;
const COLOURS = [
  ["use", "Last use"],
  ["hits", "Hits"],
];
const STEPS = { ArrowLeft: "parent", ArrowRight: "child", ArrowUp: "before", ArrowDown: "after" };

export class Tree {
  /** Args: redraw(): if nothing but the chosen node has changed; redrawAll(). */
  constructor(redraw, redrawAll) {
    Object.assign(this, { redraw, redrawAll, trees: new Map(), executor: null, colour: "use", chosen: null, top: null, drawn: null });
    this.canvas = byId("nodes");
    this.picture = document.createElement("canvas"); // of all nodes, while nothing but the chosen one changes
    choice(byId("colours"), COLOURS, this.colour, (colour) => {
      this.colour = colour;
      redrawAll();
    });
    this.canvas.addEventListener("pointermove", (event) => this.#choose(this.#at(event)));
    this.canvas.addEventListener("click", () => this.#lookInto(this.chosen));
    this.canvas.addEventListener("dblclick", () => this.#lookInto(null));
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(redrawAll).observe(this.canvas);
  }

  /** When each executor's tree was told that is known here. */
  get known() {
    return Object.fromEntries([...this.trees].map(([name, { at }]) => [name, at]));
  }

  forget() {
    this.trees.clear();
    this.executor = this.chosen = this.top = null;
  }

  add(newer) {
    for (const [name, { at, total, nodes }] of newer) this.trees.set(name, { at, total, ...layout(nodes) });
    if (!newer.length) return;
    const names = [...this.trees.keys()].sort();
    this.executor ??= names[0];
    this.#again();
    choice(byId("executors"), names.map((name) => [name, name]), this.executor, (name) => {
      this.executor = name;
      this.chosen = this.top = null;
      this.redrawAll();
    });
  }

  /** In pieces, and shown when all of it is there. */
  *draw(colours) {
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (!width || !height) return; // there is no such picture
    const tree = this.trees.get(this.executor);
    byId("scale").hidden = !tree;
    if (tree) yield* this.#drawAll(tree, width, height, colours);
    const pen = prepared(this.canvas, width, height);
    if (tree) pen.drawImage(this.picture, 0, 0, width, height);
    if (tree && this.chosen) this.#outline(pen, colours);
    this.#say(this.chosen);
  }

  /** All nodes, and what they mean; nothing if they stand there already. */
  *#drawAll(tree, width, height, colours) {
    const { top, colour } = this;
    const wanted = [tree, top, colour, width, height, window.devicePixelRatio, colours];
    if (this.drawn?.every((part, number) => part === wanted[number])) return;
    this.drawn = null;
    this.frame = this.#frame(tree, width, height);
    const pen = prepared(this.picture, width, height);
    drawAxis(pen, this.frame, width, height, colours);
    for (const node of tree.nodes) {
      this.#drawNode(pen, node, tree, colours);
      yield;
    }
    const [from, to] = colour === "use" ? ["just now", `${age(tree.oldest_s)} ago`] : [`${count(tree.most_hits)} hits`, "none"];
    byId("scale").replaceChildren(from, document.createElement("i"), to);
    byId("shape").textContent = `${tree.total > tree.nodes.length ? `the ${count(tree.nodes.length)} last used of ${count(tree.total)}` : count(tree.nodes.length)} nodes · ${count(tree.tokens)} tokens · longest ${count(tree.deepest)}`;
    this.drawn = wanted;
  }

  /** What of the tree fills the canvas: all, or one node and what is below it. */
  #frame(tree, width, height) {
    const [left, top, leaves] = this.top ? [this.top.depth, this.top.top, this.top.leaves] : [0, 0, tree.leaves];
    const deepest = this.top ? deepestBelow(this.top) : tree.deepest;
    return { left, top, across: (width - 2) / Math.max(1, deepest - left), down: (height - AXIS) / Math.max(1, leaves), deepest };
  }

  #box(node) {
    const { left, top, across, down } = this.frame;
    const [x, y] = [(node.depth - left) * across, AXIS + (node.top - top) * down];
    return [x, y, Math.max(1.5, node.tokens * across), node.leaves * down];
  }

  #drawNode(pen, node, tree, colours) {
    if (this.top && !isWithin(node, this.top)) return;
    const [x, y, width, height] = this.#box(node);
    const gap = height > 3 ? 1 : height > 1.5 ? 0.5 : 0;
    const warmth = this.colour === "use" ? 1 - Math.log1p(node.age_s) / Math.log1p(tree.oldest_s || 1) : Math.log1p(node.hits) / Math.log1p(tree.most_hits || 1);
    pen.globalAlpha = 1;
    pen.fillStyle = colours.faint;
    pen.fillRect(x, y, Math.max(1, width - 1), Math.max(0.5, height - gap));
    pen.globalAlpha = Math.min(1, Math.max(0, warmth));
    pen.fillStyle = colours.accent;
    pen.fillRect(x, y, Math.max(1, width - 1), Math.max(0.5, height - gap));
    if (width > 44 && height > 15) this.#label(pen, node, x, y, height, warmth, colours);
  }

  #label(pen, node, x, y, height, warmth, colours) {
    pen.globalAlpha = 1;
    pen.fillStyle = warmth > 0.5 ? colours.panel : colours.text;
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillText(count(node.tokens), x + 6, y + Math.min(height / 2, 14));
  }

  #outline(pen, colours) {
    const [x, y, width, height] = this.#box(this.chosen);
    pen.strokeStyle = colours.text;
    pen.lineWidth = 2;
    pen.strokeRect(x + 1, y + 1, Math.max(2, width - 3), Math.max(2, height - 2));
  }

  #at({ offsetX, offsetY }) {
    const tree = this.trees.get(this.executor);
    if (!tree || !this.frame) return null;
    const inside = (node) => {
      const [x, y, width, height] = this.#box(node);
      return offsetX >= x && offsetX < x + width && offsetY >= y && offsetY < y + height;
    };
    return tree.nodes.find((node) => inside(node) && (!this.top || isWithin(node, this.top))) ?? null;
  }

  #choose(node) {
    if (node === this.chosen) return;
    this.chosen = node;
    this.redraw();
  }

  #lookInto(node) {
    this.top = node === this.top ? null : node;
    this.redrawAll();
  }

  #key(event) {
    if (event.key === "Escape") this.#lookInto(null);
    else if (event.key === "Enter") this.#lookInto(this.chosen);
    else if (event.key in STEPS) this.#choose(this.#neighbour(STEPS[event.key]) ?? this.chosen);
    else return;
    event.preventDefault();
  }

  #neighbour(where) {
    const tree = this.trees.get(this.executor);
    if (!tree || !this.chosen) return this.top ?? tree?.roots[0];
    const siblings = this.chosen.parent?.children ?? tree.roots;
    const place = siblings.indexOf(this.chosen);
    return { parent: this.chosen.parent, child: this.chosen.children[0], before: siblings[place - 1], after: siblings[place + 1] }[where];
  }

  /** The tree was told anew: what was chosen is the node of the same id. */
  #again() {
    const nodes = this.trees.get(this.executor).nodes;
    const same = (old) => (old ? (nodes.find((node) => node.id === old.id) ?? null) : null);
    [this.chosen, this.top] = [same(this.chosen), same(this.top)];
  }

  #say(node) {
    const hint = this.trees.size ? "Point at a node, or walk with the arrow keys; Enter looks into it, Escape goes back." : "No tree in the log yet.";
    const parts = node && [
      `${count(node.tokens)} tokens`,
      `from ${count(node.depth)} to ${count(node.depth + node.tokens)}`,
      `last used ${age(node.age_s)} ago`,
      `${count(node.hits)} hits`,
      `${count(node.sharers)} running on it`,
      `${count(node.children.length)} children, ${count(node.leaves)} ends below`,
    ];
    const text = parts ? parts.join(" · ") : hint;
    if (byId("node").textContent !== text) byId("node").textContent = text;
  }
}

function drawAxis(pen, { left, across, deepest }, width, height, colours) {
  const step = [1, 2, 5].flatMap((size) => [0, 1, 2, 3, 4, 5].map((power) => size * 10 ** power)).sort((a, b) => a - b).find((size) => size * across > 70) ?? 1e6;
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.strokeStyle = colours.line;
  pen.fillStyle = colours.dim;
  for (let tokens = Math.ceil(left / step) * step; tokens <= deepest; tokens += step) {
    const x = Math.round((tokens - left) * across) + 0.5;
    pen.fillRect(x, AXIS - 4, 1, 3);
    pen.textAlign = x < 20 ? "left" : x > width - 30 ? "right" : "center";
    pen.fillText(tokens === 0 ? "token 0" : count(tokens), x, 7);
  }
}

function isWithin(node, top) {
  return node.depth >= top.depth && node.top >= top.top && node.top + node.leaves <= top.top + top.leaves && (node.depth > top.depth || node === top);
}

function deepestBelow(top) {
  let most = 0;
  const rest = [top];
  while (rest.length) {
    const node = rest.pop();
    most = Math.max(most, node.depth + node.tokens);
    rest.push(...node.children);
  }
  return most;
}
