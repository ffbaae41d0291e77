// Elements by code. Text goes in as text: log lines are hostile, and nothing here reads HTML.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

export const byId = (id) => document.getElementById(id);

/** Args: columns: [title, is a number]; rows: lists of text or elements. */
export function table(columns, rows, nothing) {
  if (!rows.length) return element("p", { class: "empty" }, nothing);
  const head = element("tr", {}, ...columns.map((column) => cell("th", column, column[0])));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows.map((row) => tableRow(columns, row))));
}

export function tableRow(columns, row) {
  return element("tr", {}, ...row.map((content, column) => cell("td", columns[column], content)));
}

function cell(kind, [, isNumber], content) {
  return element(kind, isNumber ? { class: "number" } : {}, content);
}

/** Buttons of which one is chosen: arrow keys move between them. Returns what sets the choice from outside. */
export function choice(place, options, chosen, choose, [role, mark] = ["radio", "aria-checked"]) {
  const buttons = options.map(([value, text, title]) =>
    element("button", { type: "button", role, title, on: { click: () => select(value) } }, text),
  );
  const show = (value) =>
    buttons.forEach((button, number) => {
      const is = options[number][0] === value;
      button.setAttribute(mark, is);
      button.tabIndex = is ? 0 : -1;
    });
  const select = (value) => {
    show(value);
    choose(value);
  };
  place.replaceChildren(...buttons);
  place.onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const from = buttons.indexOf(document.activeElement);
    if (step === undefined || from < 0) return;
    const next = (from + step + buttons.length) % buttons.length;
    buttons[next].focus();
    select(options[next][0]);
    event.preventDefault();
    event.stopPropagation();
  };
  show(chosen);
  return select;
}
