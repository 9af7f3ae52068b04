// Elements are made from text only: what comes from a cluster never becomes markup.

import { grouped } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) {
      made.setAttribute(name, String(value));
    }
  }
  made.append(...children.flat().filter((each) => each !== null && each !== undefined));
  return made;
}

// What an object is and has, as pairs of a name and a value.
export const definitions = (shown) =>
  element("dl", { class: "facts" }, shown.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));

export const byId = (id) => document.getElementById(id);

// Shows items in their order. Elements of items that haven't changed stay, with focus and all; an
// element that is replaced hands its focus on to the part of the same name in the new one.
export function reconcile(parent, items, keyOf, make) {
  const before = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const focused = document.activeElement;
  const part = parent.contains(focused) ? focused.dataset.part : undefined;
  const holder = part && [...before.values()].find((each) => each.contains(focused));
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    const state = JSON.stringify(item);
    let child = before.get(key);
    before.delete(key);
    if (!child || child.itemState !== state) {
      const fresh = make(item);
      fresh.dataset.key = key;
      fresh.itemState = state;
      if (child) {
        if (at === child) at = child.nextElementSibling;
        child.replaceWith(fresh);
        if (child === holder) fresh.querySelector(`[data-part="${part}"]`)?.focus();
      }
      child = fresh;
    }
    if (child === at) at = at.nextElementSibling;
    else if (child.parentNode !== parent || child.nextElementSibling !== at) {
      parent.insertBefore(child, at); // an element that is inserted again loses its focus
    }
  }
  for (const child of before.values()) child.remove();
}

// A table that keeps its roles where narrow screens show its rows as blocks.
export function table(label, columns) {
  const cells = columns.map(([title, kind]) =>
    element("th", { scope: "col", role: "columnheader", class: kind }, title),
  );
  const head = element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, cells));
  const body = element("tbody", { role: "rowgroup" });
  return { body, whole: element("table", { role: "table", "aria-label": label }, head, body) };
}

export function row(attributes, ...cells) {
  return element("tr", { role: "row", ...attributes }, ...cells);
}

export function cell(attributes, ...children) {
  return element("td", { role: "cell", ...attributes }, ...children);
}

export function empty(sentence) {
  return element("p", { class: "empty" }, sentence);
}

// A command whose lines break between its words, as long as a word fits on a line.
export const command = (text) =>
  element("code", {}, text.split(/( )/).map((word) => (word === " " ? word : element("span", { class: "word" }, word))));

// A part of the page with a heading; `more` stands beside the heading.
export function panel(kind, title, more = []) {
  const body = element("div", { class: "body" });
  const id = `title-${kind.replaceAll(" ", "-")}`;
  const head = element("div", { class: "head" }, element("h2", { id }, title), more);
  const whole = element("section", { class: `panel ${kind}`, "aria-labelledby": id }, head, body);
  return { whole, head, body };
}

// Puts elements there, unless the same ones are there already: what has the focus keeps it.
export function fillWith(parent, state, make) {
  const text = JSON.stringify(state);
  if (parent.shownState === text) return;
  parent.shownState = text;
  const focused = document.activeElement;
  const part = parent.contains(focused) ? focused.dataset.part : undefined;
  parent.replaceChildren(...make());
  if (part) parent.querySelector(`[data-part="${CSS.escape(part)}"]`)?.focus();
}

export const link = (href, ...children) => element("a", { href, "data-part": href }, ...children);

// A choice of one of a few.
export function choice(name, legend, values, chosen, change) {
  const labels = values.map(([value, text]) =>
    element(
      "label",
      {},
      element("input", { type: "radio", name, value, "data-part": `${name} ${value}`, checked: value === chosen, change: () => change(value) }),
      element("span", {}, text),
    ),
  );
  return element("fieldset", { class: "choice" }, element("legend", { class: "hidden" }, legend), labels);
}

// A field to search in, which asks after a short pause.
export function searchField(label, value, change) {
  let timer = 0;
  const input = element("input", {
    type: "search",
    placeholder: label,
    "aria-label": label,
    autocomplete: "off",
    spellcheck: "false",
    value,
    input: () => {
      clearTimeout(timer);
      timer = setTimeout(() => change(input.value.trim()), 250);
    },
  });
  return input;
}

// Buttons to the pages before and after, for lists that are longer than a page.
export function pager(parent, offset, shown, count, go) {
  let made = parent.querySelector(".pages");
  if (count <= shown && !offset) {
    made?.remove();
    return;
  }
  if (!made) {
    made = element(
      "div",
      { class: "pages" },
      element("button", { type: "button", "data-part": "before" }, "Previous"),
      element("button", { type: "button", "data-part": "after" }, "Next"),
      element("span", {}),
    );
    parent.append(made);
  }
  const [before, after, text] = made.children;
  before.disabled = !offset;
  after.disabled = offset + shown >= count;
  before.onclick = () => go(-1);
  after.onclick = () => go(1);
  text.textContent = `${grouped(offset + 1)} to ${grouped(offset + shown)} of ${grouped(count)}`;
}

// The pattern for what is borrowed, which all bars share.
export function hatch() {
  const pattern = shape(
    "pattern",
    { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    shape("rect", { class: "hatch-ground", width: 6, height: 6 }),
    shape("line", { class: "hatch-line", x1: 1, x2: 1, y1: 0, y2: 6 }),
  );
  const holder = { width: 0, height: 0, "aria-hidden": "true", class: "hidden" };
  return shape("svg", holder, shape("defs", {}, pattern));
}
