// The tree of queues, with bars: what each has, deserves and wants.

import { byId, cell, element, empty, pager, reconcile, row, shape, table } from "./dom.js";

const PAGE = 40;
let offset = 0;
let resource = "";
let last = null;
let list = null;

export const parameters = () => ({ offset, limit: PAGE });

export function show(found, { onQueue, reload }) {
  last = found;
  const body = byId("queues-body");
  if (!found.count) {
    byId("resources").replaceChildren(byId("resources").querySelector("legend"));
    list = null;
    body.replaceChildren(empty("There are no queues that you may see."));
    return;
  }
  if (offset >= found.count) {
    offset = 0;
    reload();
    return;
  }
  chooseResource(found, () => show(last, { onQueue, reload }));
  if (!list?.whole.isConnected) {
    list = table("Queues", [
      ["Queue", ""],
      [element("span", { class: "hidden" }, "Bar"), ""],
      ["Has", "number"],
      ["Deserves", "number"],
      ["Wants", "number"],
      ["Share", ""],
      ["Waiting", "number"],
      ["Running", "number"],
    ]);
    body.replaceChildren(list.whole);
  }
  const scale = scaleOf(found.queues);
  const items = found.queues.map((queue) => ({ queue, scale, resource }));
  reconcile(list.body, items, (item) => item.queue.name, (item) => rowOf(item, onQueue));
  pager(body, found.offset, found.queues.length, found.count, (way) => {
    offset = Math.max(0, offset + way * PAGE);
    reload();
  });
}

function chooseResource(found, again) {
  const field = byId("resources");
  const names = found.resources.slice(0, 6);
  if (!names.includes(resource)) [resource] = names;
  const shown = [...field.querySelectorAll("input")].map((each) => each.value);
  if (shown.join(" ") === names.join(" ")) return;
  field.replaceChildren(
    field.querySelector("legend"),
    ...names.map((name) =>
      element(
        "label",
        {},
        element("input", {
          type: "radio",
          name: "resource",
          value: name,
          checked: name === resource,
          change: () => {
            resource = name;
            again();
          },
        }),
        element("span", {}, name),
      ),
    ),
  );
}

const valueOf = (figure, name) => figure?.[name]?.value ?? 0;
const figureOf = (queue) => queue.resources[resource];

// All bars have the same scale. Wishes beyond it are cut, and have their number.
function scaleOf(queues) {
  let most = 0;
  for (const queue of queues) {
    const figure = figureOf(queue);
    most = Math.max(most, valueOf(figure, "has"), valueOf(figure, "deserves"));
  }
  const wanted = Math.max(0, ...queues.map((queue) => valueOf(figureOf(queue), "wants")));
  return Math.max(Math.min(wanted, most * 1.6), most * 1.04) || 1;
}

function rowOf({ queue, scale }, onQueue) {
  const figure = figureOf(queue);
  const borrowed = valueOf(figure, "borrowed");
  const about = [`weight ${queue.weight}`];
  if (queue.state !== "Open") about.unshift(queue.state);
  const name = element(
    "button",
    {
      type: "button",
      class: "queue-name",
      "data-part": "name",
      title: queue.sentence || null,
      click: () => onQueue(queue.name),
    },
    queue.name,
    element("span", { class: "hidden" }, ": show its jobs"),
  );
  const has = [figure?.has.text ?? "0"];
  if (borrowed > 0) {
    has.push(element("span", { class: "sub over" }, `${figure.borrowed.text} borrowed`));
  }
  return row(
    {},
    cell(
      { class: "queue" },
      element(
        "div",
        { class: `indent-${Math.min(queue.depth, 4)}` },
        name,
        element("span", { class: "sub" }, about.join(", ")),
      ),
    ),
    cell({ class: "bar-cell" }, bar(figure, scale)),
    cell({ class: "number", "data-title": "has" }, ...has),
    cell({ class: "number", "data-title": "deserves" }, figure?.deserves?.text ?? "–"),
    cell({ class: "number", "data-title": "wants" }, figure?.wants.text ?? "0"),
    cell({ "data-title": "share" }, queue.share || "–"),
    cell({ class: "number", "data-title": "waiting" }, String(queue.jobs.waiting)),
    cell({ class: "number", "data-title": "running" }, String(queue.jobs.running)),
  );
}

function bar(figure, scale) {
  const part = (value) => `${(100 * Math.min(value, scale)) / scale}%`;
  const has = valueOf(figure, "has");
  const wants = valueOf(figure, "wants");
  const own = has - valueOf(figure, "borrowed");
  const made = shape("svg", { class: "bar", "aria-hidden": "true" });
  made.append(shape("rect", { class: "track", width: "100%", height: 14, y: 2, rx: 2 }));
  if (wants > has) {
    made.append(shape("rect", { class: "wants", width: part(wants), height: 13, y: 2.5 }));
  }
  if (own > 0) made.append(shape("rect", { class: "has", width: part(own), height: 14, y: 2 }));
  if (has > own) {
    made.append(
      shape("rect", {
        class: "borrowed",
        x: part(own),
        width: part(Math.min(has, scale) - Math.min(own, scale)),
        height: 13,
        y: 2.5,
      }),
    );
  }
  if (figure?.deserves) {
    const at = part(figure.deserves.value);
    made.append(
      shape("svg", { x: at, overflow: "visible" },
        shape("rect", { class: "deserves", x: -1.5, width: 3, height: 18 })),
    );
  }
  return made;
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
