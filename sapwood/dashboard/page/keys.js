// Keyboard shortcuts: one letter each, told by `?`. Not while somebody types.

import { byId, element } from "./dom.js";

const NAMES = { " ": "space" };
const FURTHER = [
  ["Enter ↓", "in the search field: the first that was found"],
  ["← →", "in the charts: the cross-hair; in the tree: parent, child"],
  ["↑ ↓", "in the list: request; in the tree: sibling"],
  ["Enter, Esc", "in the tree: look into a node, go back"],
];

/** Args: shortcuts: by key, what it does in words, and the doing. */
export function listen(shortcuts) {
  byId("keys").append(
    ...[...Object.entries(shortcuts).map(([key, [words]]) => [NAMES[key] ?? key, words]), ...FURTHER].flatMap(
      ([key, words]) => [element("span", {}, element("kbd", {}, key)), element("span", {}, words)],
    ),
  );
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
    const isPressing = event.key === " " && event.target.closest("button");
    if (!Object.hasOwn(shortcuts, event.key) || isPressing || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    shortcuts[event.key][1]();
  });
  byId("filter").addEventListener("keydown", ({ key, target }) => key === "Escape" && target.blur());
}

export function showShortcuts() {
  byId("shortcuts").showModal();
}

function isTyping(target) {
  return target.matches("input, textarea");
}
