// Light or dark: as the system says, until somebody chooses. Canvases take their colours from here.

const CHOICE = "sapwood.theme";
const NAMES = ["text", "dim", "faint", "line", "panel", "accent", "bad"];
const dark = matchMedia("(prefers-color-scheme: dark)");
let known = null;

function apply() {
  document.documentElement.dataset.theme = localStorage.getItem(CHOICE) ?? (dark.matches ? "dark" : "light");
  const style = getComputedStyle(document.documentElement);
  known = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

export function colours() {
  return known;
}

export function toggleTheme() {
  localStorage.setItem(CHOICE, document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  apply();
}

dark.addEventListener("change", apply);
apply();
