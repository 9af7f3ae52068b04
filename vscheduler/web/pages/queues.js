// The tree of queues, with bars: what each has, deserves and wants.

import { cell, choice, element, empty, fillWith, link, pager, panel, reconcile, row, searchField, shape, table } from "./dom.js";
import { kindOf, meet } from "./colors.js";
import { called, grouped, unless } from "./format.js";
import { get } from "./api.js";
import { change, toQueue } from "./route.js";

const PAGE = 50;
export const needs = ["queues", "nodes"];
export const title = () => "Queues";

let parts = null;
let offset = 0;

export function enter(root, { query, reload }) {
  offset = 0;
  const search = searchField("Name of the queue", query.search ?? "", (text) => {
    offset = 0;
    change({ search: text });
    reload();
  });
  const resources = element("div", {});
  const made = panel("queues", "Queues", [resources, element("div", { class: "filters" }, search)]);
  made.head.after(legend());
  root.append(made.whole);
  parts = { ...made, resources };
}

export const load = ({ query }) => get("queues", { offset, limit: PAGE, search: query.search ?? "" });

export function show(root, found, { about, query, reload }) {
  const { body } = parts;
  const names = found.resources.slice(0, 6);
  const resource = names.includes(query.resource) ? query.resource : names[0];
  chooseResource(parts.resources, names, resource, (name) => {
    change({ resource: name });
    reload();
  });
  if (!found.count) {
    body.replaceChildren(empty(query.search ? "No queue matches." : noQueues(about)));
    return;
  }
  if (offset >= found.count) {
    offset = 0;
    reload();
    return;
  }
  list(body, found.queues, resource);
  pager(body, found.offset, found.queues.length, found.count, (way) => {
    offset = Math.max(0, offset + way * PAGE);
    reload();
  });
}

export const noQueues = (about) => (about.visitor.queues ? unless(about, "There are no queues yet.") : "You may not list queues.");

export function chooseResource(place, names, resource, change) {
  fillWith(place, [names, resource], () =>
    names.length > 1 ? [choice("resource", "Resource", names.map((name) => [name, name]), resource, change)] : [],
  );
}

export function legend() {
  const key = (kind, text, attributes) =>
    element("li", {}, shape("svg", { class: "key", "aria-hidden": "true" }, shape("rect", { class: kind, ...attributes })), text);
  const whole = { width: "100%", height: "100%" };
  return element(
    "ul",
    { class: "legend", "aria-label": "Bars" },
    key("has", "has", whole),
    key("borrowed", "borrowed", whole),
    key("reserved", "reserved", { x: 1, y: 1, width: 24, height: 10 }),
    key("wants", "wants", { x: 1, y: 1, width: 24, height: 10 }),
    key("deserves", "deserves", { x: 11.5, width: 3, height: "100%" }),
  );
}

export function list(body, queues, resource) {
  let whole = body.querySelector("table");
  if (!whole) {
    whole = table("Queues", [
      ["Queue", ""], [element("span", { class: "hidden" }, "Bar"), ""], ["Has", "number"], ["Deserves", "number"],
      ["Wants", "number"], ["Share", "number"], ["Waiting", "number"], ["Running", "number"],
    ]).whole;
    body.replaceChildren(whole);
  }
  meetHolders(queues, resource);
  const scale = scaleOf(queues, resource);
  const items = queues.map((queue) => ({ queue, scale, resource }));
  reconcile(whole.querySelector("tbody"), items, (item) => item.queue.name, rowOf);
}

// Gives colours to those that have most first. Inner queues have what others have.
export function meetHolders(queues, resource) {
  const has = (queue) => queue.resources[resource]?.has.value ?? 0;
  const holders = queues.filter((queue) => !queue.inner && has(queue) > 0);
  holders.sort((one, other) => has(other) - has(one) || (one.name < other.name ? -1 : 1));
  meet(holders.map((each) => each.name));
  return holders;
}

const valueOf = (figure, name) => figure?.[name]?.value ?? 0;

// All bars have the same scale. Wishes beyond it are cut, and have their number.
export function scaleOf(queues, resource) {
  let most = 0;
  for (const queue of queues) {
    const figure = queue.resources[resource];
    most = Math.max(most, valueOf(figure, "has") + valueOf(figure, "reserved"), valueOf(figure, "deserves"));
  }
  const wanted = Math.max(0, ...queues.map((queue) => valueOf(queue.resources[resource], "wants")));
  return Math.max(Math.min(wanted, most * 1.6), most * 1.04) || 1;
}

function rowOf({ queue, scale, resource }) {
  const figure = queue.resources[resource];
  const borrowed = valueOf(figure, "borrowed");
  const about = [`weight ${queue.weight}`];
  if (queue.state !== "Open") about.unshift(queue.state);
  const has = [grouped(figure?.has.text ?? "0")];
  if (borrowed > 0) has.push(element("span", { class: "sub over" }, `${grouped(figure.borrowed.text)} borrowed`));
  if (figure?.reserved) has.push(element("span", { class: "sub" }, `${grouped(figure.reserved.text)} reserved`));
  const share = shareOf(queue, resource);
  return row(
    queue.inner ? { class: "inner" } : {},
    cell(
      { class: "queue" },
      element(
        "div",
        { class: `indent-${Math.min(queue.depth, 4)}` },
        queue.inner ? null : element("span", { class: `swatch ${kindOf(queue.name)}`, "aria-hidden": "true" }),
        link(toQueue(queue.name), queue.name),
        element("span", { class: "sub" }, about.join(", ")),
      ),
    ),
    cell({ class: "bar-cell" }, bar(figure, scale, queue.inner ? "has" : kindOf(queue.name))),
    cell({ class: "number", "data-title": "has" }, ...has),
    cell({ class: "number", "data-title": "deserves" }, grouped(figure?.deserves?.text ?? "–")),
    cell({ class: "number", "data-title": "wants" }, grouped(figure?.wants.text ?? "0")),
    cell({ class: "number", "data-title": "share", title: "has ÷ deserves, of the resource with the largest" }, ...share),
    cell({ class: "number", "data-title": "waiting" }, grouped(queue.jobs.waiting)),
    cell({ class: "number", "data-title": "running" }, grouped(queue.jobs.running)),
  );
}

// The share with the resource that makes it: the largest has ÷ deserves of all resources. The
// server says it as `0.96 (cpu)`.
export function shareOf({ ratio, share }, usual = "") {
  if (ratio === null) return ["–"];
  const resource = largestOf(share);
  return [ratio.toFixed(2), resource && resource !== usual ? element("span", { class: "sub" }, `by ${called(resource)}`) : null];
}

export const largestOf = (share) => share.match(/\((.+)\)/)?.[1] ?? "";

// `kind` is the colour of what the queue has: its own, as in all charts.
export function bar(figure, scale, kind) {
  const part = (value) => `${(100 * Math.min(value, scale)) / scale}%`;
  const has = valueOf(figure, "has");
  const wants = valueOf(figure, "wants");
  const own = has - valueOf(figure, "borrowed");
  const made = shape("svg", { class: "bar", "aria-hidden": "true" });
  made.append(shape("rect", { class: "track", width: "100%", height: 14, y: 2, rx: 2 }));
  if (wants > has) made.append(shape("rect", { class: "wants", width: part(wants), height: 13, y: 2.5 }));
  if (own > 0) made.append(shape("rect", { class: kind, width: part(own), height: 14, y: 2 }));
  if (has > own) {
    const width = part(Math.min(has, scale) - Math.min(own, scale));
    made.append(shape("rect", { class: "borrowed", x: part(own), width, height: 13, y: 2.5 }));
  }
  const reserved = valueOf(figure, "reserved");
  if (reserved > 0) {
    const width = part(Math.min(has + reserved, scale) - Math.min(has, scale));
    made.append(shape("rect", { class: "reserved", x: part(has), width, height: 13, y: 2.5 }));
  }
  if (figure?.deserves?.value > 0) {
    const at = part(figure.deserves.value);
    made.append(
      shape("svg", { x: at, overflow: "visible" }, shape("rect", { class: "deserves", x: -1.5, width: 3, height: 18 })),
    );
  }
  return made;
}
