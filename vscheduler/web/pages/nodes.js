// A map of the nodes: each is a tile with its devices, coloured by the queues of the jobs on them.
// Below it are the same nodes as a table.

import { cell, element, empty, fillWith, link, pager, panel, reconcile, row, searchField, shape, table } from "./dom.js";
import { called, count, grouped, quantity, seenBy, unless } from "./format.js";
import { get } from "./api.js";
import * as route from "./route.js";
import { kindOf, meet, slotOf } from "./colors.js";
import { chooseResource } from "./queues.js";

const PAGE = 25;
const CELLS_MAX = 16; // more devices on a node are a bar
const HEIGHT_MAX = 620;
const NAMES_MAX = 60; // with more nodes, tiles have no names
const BAR_CELLS = 4;
const HOLES = [8, 4, 2, 1];
export const needs = ["nodes", "jobs"];
export const title = () => "Nodes";

let parts = null;
let offset = 0;
let drawn = null;

export function enter(root, { query, reload }) {
  offset = 0;
  drawn = null;
  const change = (more) => {
    offset = 0;
    route.change(more);
    if (parts.last) show(root, parts.last, { about: parts.about, query: route.current().query, reload });
  };
  const resources = element("div", {});
  const search = searchField("Node, job or queue", query.search ?? "", (text) => change({ search: text }));
  const map = panel("map", "Nodes", [resources, element("div", { class: "filters" }, search)]);
  const canvas = element("canvas", { role: "img", "aria-label": "Map of the nodes" });
  const tip = element("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  const holder = element("div", { class: "map-holder" }, canvas, tip);
  const summary = element("div", { class: "text summary" });
  const keys = element("ul", { class: "legend", "aria-label": "Colours" });
  map.body.append(summary, keys, holder);
  const detail = element("section", { class: "panel about node", hidden: true });
  const list = panel("node-table", "The same as a table");
  root.append(map.whole, detail, list.whole);
  parts = { map, resources, canvas, tip, holder, summary, keys, detail, list, change, last: null, query };
  canvas.addEventListener("pointermove", (event) => point(event));
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("click", (event) => {
    const node = nodeAt(event);
    if (node) change({ node: node.name });
  });
  new ResizeObserver(() => draw()).observe(holder);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());

export const load = () => get("nodes");

export function show(root, found, { about, query, reload }) {
  parts.last = found;
  parts.about = about;
  parts.query = query;
  for (const part of [parts.keys, parts.holder, parts.list.whole]) part.hidden = !found.nodes.length;
  if (!found.nodes.length) {
    parts.detail.hidden = true;
    const why = about.visitor.nodes ? unless(about, "There are no nodes yet.") : "You may not list nodes.";
    fillWith(parts.summary, why, () => [element("p", {}, why)]);
    return;
  }
  const resource = found.resources.includes(query.resource) ? query.resource : found.resources[0];
  const at = found.resources.indexOf(resource);
  const every = found.nodes;
  const having = every.filter((node) => node.total[at] > 0);
  const without = every.length - having.length;
  chooseResource(parts.resources, found.resources, resource, (name) => parts.change({ resource: name }));
  const shown = { ...found, nodes: having };
  meet(holders(shown, at));
  const marked = matches(shown, query);
  drawn = { found: shown, at, resource, marked, selected: query.node ?? "" };
  summary(shown, at, resource, without);
  keys(shown, at);
  draw();
  details(found, query, seenBy(about.visitor));
  tableOf(shown, at, resource, marked, query, reload);
}

// Queues by what their jobs hold.
function holders(found, at) {
  const sums = new Map();
  for (const node of found.nodes) {
    for (const [job, , ...amounts] of node.jobs) {
      const { queue } = found.jobs[job];
      sums.set(queue, (sums.get(queue) ?? 0) + amounts[at]);
    }
  }
  return [...sums].filter(([, sum]) => sum > 0).sort((one, other) => other[1] - one[1]).map(([name]) => name);
}

// Indices of nodes that a search means; null without a search.
function matches(found, query) {
  const text = query.search ?? "";
  if (!text) return null;
  const jobs = new Set();
  found.jobs.forEach((job, at) => {
    const named = [job.workload, job.podGroup, job.queue, `${job.namespace}/${job.podGroup}`, job.namespace];
    if (named.some((each) => each.includes(text))) jobs.add(at);
  });
  const all = found.nodes.map((node, at) => [node, at]);
  return new Set(
    all
      .filter(([node]) => node.name.includes(text) || (node.domain ?? "").includes(text) || node.jobs.some(([job]) => jobs.has(job)))
      .map(([, at]) => at),
  );
}

// Fragmentation: how much of what is free lies together on one node.
function summary(found, at, resource, without) {
  const free = found.nodes.map((node) => node.free[at]);
  const total = found.nodes.map((node) => node.total[at]);
  const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);
  const unit = called(resource);
  const largest = Math.max(...free);
  const on = free.filter((each) => each > 0).length;
  const problems = found.nodes.filter((node) => node.problem).length;
  const lines = [
    element(
      "p",
      { class: "figure" },
      element("strong", {}, quantity(resource, sum(free))),
      ` of ${quantity(resource, sum(total))} ${unit} free on ${grouped(on)} of ${count(total.length, "node")}`,
    ),
  ];
  const discrete = Math.max(...total) <= CELLS_MAX && free.every(Number.isInteger);
  if (discrete && largest > 0) {
    const most = Math.max(...total);
    const sizes = [...new Set([most, ...HOLES.filter((each) => each < most)])];
    const rooms = sizes.map((size) => [size, sum(free.map((each) => Math.floor(each / size)))]).filter(([, number]) => number > 0);
    lines.push(element("p", {}, `Room for ${listed(rooms.map(([size, number]) => `${count(number, "pod")} of ${size}`))} ${called(resource, sizes.at(-1))}.`));
    lines.push(histogram(free, total, most, unit));
  } else if (largest > 0) {
    lines.push(element("p", {}, `At most ${quantity(resource, largest)} ${unit} are free on one node.`));
  }
  const notes = [
    ...(problems ? [`Pods can't use ${count(problems, "node")}.`] : []),
    ...(without ? [`${count(without, "node")} without ${unit} ${without === 1 ? "isn't" : "aren't"} shown.`] : []),
  ];
  if (notes.length) lines.push(element("p", { class: "sub" }, notes.join(" ")));
  fillWith(parts.summary, [resource, free, total, problems, without], () => lines);
}

const listed = (texts) => (texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} or ${texts.at(-1)}`);

function histogram(free, total, most, unit) {
  const counts = Array.from({ length: most + 1 }, () => 0);
  free.forEach((each, at) => { if (total[at] > 0) counts[each] += 1; });
  const highest = Math.max(...counts);
  const bars = counts.map((number, size) => {
    const height = (100 * number) / highest;
    const label = element("span", { class: "number" }, grouped(number));
    const column = shape("svg", { class: "column-bar", "aria-hidden": "true" }, shape("rect", { class: size ? "unused" : "hue-0", width: "100%", height: `${height}%`, y: `${100 - height}%` }));
    return element("li", {}, label, column, element("span", { class: "sub" }, String(size)));
  });
  const said = `Nodes by how many ${unit} they have free`;
  return element(
    "figure",
    {},
    element("ol", { class: "histogram", "aria-label": said }, bars),
    element("figcaption", { class: "sub", "aria-hidden": "true" }, said),
  );
}

function keys(found, at) {
  const names = holders(found, at);
  const named = names.filter((name) => slotOf(name));
  const rest = names.length - named.length;
  const some = (part) => found.nodes.some((node) => node[part][at] > 0);
  const kinds = [
    ...named.map((name) => [kindOf(name), name, route.toQueue(name)]),
    ...(rest > 0 || unseen(found, at) ? [["hue-0", rest > 0 ? count(rest, "other queue") : "jobs that you may not see"]] : []),
    ...[["others", "other schedulers"], ["ending", "ending"], ["reserved", "reserved"], ["closed", "on unusable nodes"]].filter(([part]) => some(part)),
    ["unused", "free"],
  ];
  fillWith(parts.keys, kinds, () =>
    kinds.map(([kind, text, href]) =>
      element("li", {}, element("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), href ? link(href, text) : text),
    ),
  );
}

const unseen = (found, at) =>
  found.nodes.some((node) => node.ours[at] - node.jobs.reduce((sum, [, , ...amounts]) => sum + amounts[at], 0) > 1e-6);

// What a tile shows, from its first cell on.
function pieces(found, node, at) {
  const jobs = node.jobs
    .filter(([, , ...amounts]) => amounts[at] > 0)
    .map(([job, pods, ...amounts]) => ({ job, pods, value: amounts[at], kind: kindOf(found.jobs[job].queue), slot: slotOf(found.jobs[job].queue) }))
    .sort((one, other) => (one.slot || 99) - (other.slot || 99) || one.job - other.job);
  const seen = jobs.reduce((sum, each) => sum + each.value, 0);
  const rest = [
    ["hue-0", Math.max(0, node.ours[at] - seen)], ["others", node.others[at]], ["ending", node.ending[at]],
    ["reserved", node.reserved[at]], ["closed", node.closed[at]], ["unused", node.free[at]],
  ];
  return [...jobs, ...rest.map(([kind, value]) => ({ kind, value }))].filter((each) => each.value > 1e-6);
}

// Where tiles are: those of a domain together, below its name.
function layout({ found, at }, width) {
  const groups = new Map();
  found.nodes.forEach((node, index) => {
    const key = node.domain ?? "";
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(index);
  });
  const sorted = [...groups].sort(([one], [other]) => (one < other ? -1 : 1));
  const most = Math.max(...found.nodes.map((node) => node.total[at]));
  const whole = found.nodes.every((node) => Number.isInteger(node.total[at]));
  const cells = whole && most <= CELLS_MAX && most > 0 ? most : 0;
  const across = cells ? Math.min(cells, cells > 4 ? Math.ceil(cells / 2) : cells) : BAR_CELLS;
  const down = cells ? Math.ceil(cells / across) : 1;
  const named = found.nodes.length <= NAMES_MAX;
  const titled = groups.size > 1 || sorted[0][0] !== "";
  const largest = Math.max(...sorted.map(([, members]) => members.length));
  for (const side of [26, 22, 18, 15, 12, 10, 8, 7, 6, 5, 4]) {
    const tile = { width: Math.max(across * side + 4, named ? 96 : 0), height: down * side + 4 + (named ? 16 : 0) };
    const gap = side > 9 ? 8 : 4;
    const perRow = Math.max(1, Math.floor((width + gap) / (tile.width + gap)));
    // Domains stand beside each other, in as many rows of nodes as make the map the least high.
    const tried = (titled ? [1, 2, 3, 4, 5] : [1]).map((rows) => {
      const across = titled ? Math.min(perRow, Math.ceil(largest / rows)) : perRow;
      return arrange({ sorted, width, tile, gap, titled, across });
    });
    const found = tried.reduce((one, other) => (other.height < one.height ? other : one));
    if (found.height <= HEIGHT_MAX || side === 4) return { side, tile, ...found, cells, across, down, named };
  }
  return null;
}

function arrange({ sorted, width, tile, gap, titled, across }) {
  const tiles = new Map();
  const titles = [];
  const head = titled ? 20 : 0;
  let x = 0;
  let y = 0;
  let rowHeight = 0;
  for (const [name, members] of sorted) {
    const columns = Math.min(members.length, across);
    const blockWidth = Math.max(columns * (tile.width + gap), titled ? Math.min(name.length * 7 + 12, width) : 0);
    const rows = Math.ceil(members.length / columns);
    if (x > 0 && x + blockWidth - gap > width) {
      x = 0;
      y += rowHeight + 10;
      rowHeight = 0;
    }
    if (titled) titles.push([name || "without a domain", x, y + 12]);
    members.forEach((index, nth) => {
      const row = Math.floor(nth / columns);
      tiles.set(index, { x: x + (nth % columns) * (tile.width + gap), y: y + head + row * (tile.height + gap) });
    });
    rowHeight = Math.max(rowHeight, head + rows * (tile.height + gap));
    x += blockWidth + (titled ? 14 : 0);
  }
  return { tiles, titles, height: y + rowHeight };
}

function draw() {
  if (!drawn || !parts?.canvas.isConnected) return;
  const { canvas, holder } = parts;
  const width = Math.floor(holder.clientWidth);
  if (width < 40) return;
  const place = layout(drawn, width);
  drawn.place = place;
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(place.height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${place.height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const ink = inks();
  pen.font = ink.font;
  pen.fillStyle = ink.muted;
  for (const [text, x, y] of place.titles) pen.fillText(text, x, y);
  drawn.found.nodes.forEach((node, index) => tile(pen, ink, place, node, index));
  canvas.setAttribute("aria-label", `Map of ${drawn.found.nodes.length} nodes, coloured by queue; the table below has the same`);
}

function inks() {
  const style = getComputedStyle(document.body);
  const of = (name) => style.getPropertyValue(name).trim();
  const kinds = {};
  for (let slot = 0; slot <= 8; slot += 1) kinds[`hue-${slot}`] = of(`--hue-${slot}`);
  for (const name of ["others", "ending", "reserved", "closed", "unused"]) kinds[name] = of(`--${name}`);
  return { kinds, text: of("--text"), muted: of("--muted"), line: of("--line"), bad: of("--bad"), accent: of("--accent"), font: `12px ${style.fontFamily}` };
}

function tile(pen, ink, place, node, index) {
  const { at, found, marked, selected } = drawn;
  const where = place.tiles.get(index);
  const dim = marked !== null && !marked.has(index);
  pen.globalAlpha = dim ? 0.18 : 1;
  const top = where.y + (place.named ? 16 : 0);
  if (place.named) {
    pen.fillStyle = node.problem ? ink.bad : ink.muted;
    pen.fillText(shortened(pen, node.name, place.tile.width - 2), where.x + 1, where.y + 11);
  }
  const shown = pieces(found, node, at);
  const width = place.across * place.side;
  const height = place.down * place.side;
  const inset = place.side > 7 ? 1 : 0.5;
  if (place.cells) {
    let cellAt = 0;
    for (const piece of shown) {
      for (let nth = 0; nth < Math.round(piece.value) && cellAt < place.cells; nth += 1, cellAt += 1) {
        const x = where.x + 2 + (cellAt % place.across) * place.side;
        const y = top + 2 + Math.floor(cellAt / place.across) * place.side;
        box(pen, ink, piece.kind, x + inset, y + inset, place.side - 2 * inset, place.side - 2 * inset);
      }
    }
  } else if (node.total[at] > 0) {
    let x = where.x + 2;
    for (const piece of shown) {
      const part = (width * piece.value) / node.total[at];
      box(pen, ink, piece.kind, x, top + 2, part, height);
      x += part;
    }
  }
  const chosen = node.name === selected;
  pen.strokeStyle = chosen ? ink.accent : node.problem ? ink.bad : ink.line;
  pen.lineWidth = chosen ? 3 : 1;
  pen.strokeRect(where.x + 0.5, top + 0.5, width + 3, height + 3);
  pen.globalAlpha = 1;
}

function box(pen, ink, kind, x, y, width, height) {
  pen.fillStyle = ink.kinds[kind];
  pen.fillRect(x, y, width, height);
  if ((kind === "ending" || kind === "reserved" || kind === "closed") && width > 2) {
    pen.save();
    pen.beginPath();
    pen.rect(x, y, width, height);
    pen.clip();
    pen.strokeStyle = ink.muted;
    pen.lineWidth = 1;
    pen.beginPath();
    if (kind === "reserved") pen.rect(x + 0.5, y + 0.5, width - 1, height - 1);
    for (let step = -height; step < width && kind !== "reserved"; step += 4) {
      const rising = kind === "ending";
      pen.moveTo(x + step, rising ? y + height : y);
      pen.lineTo(x + step + height, rising ? y : y + height);
    }
    pen.stroke();
    pen.restore();
  }
}

function shortened(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let kept = text;
  while (kept.length > 1 && pen.measureText(`…${kept}`).width > width) kept = kept.slice(1);
  return `…${kept}`;
}

function nodeAt(event) {
  if (!drawn?.place) return null;
  const bounds = parts.canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - bounds.left, event.clientY - bounds.top];
  const { tile: size, tiles } = drawn.place;
  for (const [index, where] of tiles) {
    if (x >= where.x && x <= where.x + size.width && y >= where.y && y <= where.y + size.height) return drawn.found.nodes[index];
  }
  return null;
}

function point(event) {
  const { tip, holder, canvas } = parts;
  const node = nodeAt(event);
  tip.hidden = node === null;
  canvas.classList.toggle("pointing", node !== null);
  if (!node) return;
  const { at, found, resource } = drawn;
  fillWith(tip, [node, resource], () => [
    element("strong", {}, node.name),
    element("span", { class: "sub" }, `${quantity(resource, node.free[at])} of ${quantity(resource, node.total[at])} ${called(resource)} free`),
    ...(node.problem ? [element("span", { class: "sub" }, node.problem)] : []),
    ...node.jobs.slice(0, 6).map(([job, pods]) => element("span", { class: "sub" }, `${found.jobs[job].namespace}/${found.jobs[job].podGroup}, ${count(pods, "pod")}`)),
    ...(node.jobs.length > 6 ? [element("span", { class: "sub" }, `and ${node.jobs.length - 6} more`)] : []),
  ]);
  const bounds = holder.getBoundingClientRect();
  const x = Math.min(event.clientX - bounds.left + 14, bounds.width - 250);
  tip.style.left = `${Math.max(0, x)}px`;
  tip.style.top = `${event.clientY - bounds.top + 16}px`;
}

// The node that was chosen.
function details(found, query, seen) {
  const node = found.nodes.find((each) => each.name === query.node);
  parts.detail.hidden = !query.node;
  if (!query.node) return;
  if (!node) {
    fillWith(parts.detail, query.node, () => [element("h2", {}, query.node), element("p", { class: "empty" }, "There is no such node.")]);
    return;
  }
  const jobs = node.jobs.map(([job, pods, ...amounts]) => ({ ...found.jobs[job], pods, amounts }));
  fillWith(parts.detail, [node, jobs, found.resources], () => {
    const close = element("button", { type: "button", "data-part": "close", click: () => parts.change({ node: "" }) }, "Close");
    const amounts = found.resources.map((name, at) => {
      const value = `${quantity(name, node.free[at])} of ${quantity(name, node.total[at])} free`;
      return element("div", {}, element("dt", {}, name), element("dd", {}, value));
    });
    const facts = element(
      "dl",
      { class: "facts" },
      node.domain ? element("div", {}, element("dt", {}, "In the network"), element("dd", {}, node.domain)) : null,
      node.problem ? element("div", {}, element("dt", {}, "Pods can't use it"), element("dd", {}, node.problem)) : null,
      amounts,
    );
    const made = table("Jobs on the node", [["Job", ""], ["Queue", ""], ["Pods", "number"], ...found.resources.map((name) => [called(name), "number"])]);
    made.body.append(
      ...jobs.map((job) =>
        row(
          {},
          cell({ class: "job" }, link(route.toJob(job), job.workload), element("span", { class: "sub" }, job.namespace)),
          cell({ "data-title": "queue" }, element("span", { class: `swatch ${kindOf(job.queue)}`, "aria-hidden": "true" }), link(route.toQueue(job.queue), job.queue)),
          cell({ class: "number", "data-title": "pods" }, grouped(job.pods)),
          ...job.amounts.map((value, at) => cell({ class: "number", "data-title": called(found.resources[at]) }, quantity(found.resources[at], value))),
        ),
      ),
    );
    return [
      element("div", { class: "head" }, element("h2", {}, node.name), close),
      facts,
      jobs.length ? made.whole : element("p", { class: "empty" }, `No job${seen} has pods there.`),
    ];
  });
}

function tableOf(found, at, resource, marked, query, reload) {
  const { body } = parts.list;
  const indices = found.nodes.map((_, index) => index).filter((index) => marked === null || marked.has(index));
  if (!indices.length) {
    body.replaceChildren(empty("No node matches."));
    return;
  }
  if (offset >= indices.length) offset = 0;
  let whole = body.querySelector("table");
  if (!whole) {
    whole = table("Nodes", [["Node", ""], ["Free", "number"], ["Jobs", ""]]).whole;
    body.replaceChildren(whole);
  }
  const page = indices.slice(offset, offset + PAGE).map((index) => {
    const node = found.nodes[index];
    const jobs = node.jobs.slice(0, 6).map(([job, pods]) => ({ ...found.jobs[job], pods }));
    return { name: node.name, domain: node.domain, problem: node.problem, free: quantity(resource, node.free[at]), total: quantity(resource, node.total[at]), jobs, more: node.jobs.length - jobs.length };
  });
  reconcile(whole.querySelector("tbody"), page, (each) => each.name, nodeRow);
  pager(body, offset, page.length, indices.length, (way) => {
    offset = Math.max(0, offset + way * PAGE);
    tableOf(found, at, resource, marked, query, reload);
  });
}

function nodeRow(node) {
  const about = [node.domain, node.problem].filter(Boolean).join(", ");
  const chips = node.jobs.map((job) =>
    element("li", {}, element("span", { class: `swatch ${kindOf(job.queue)}`, "aria-hidden": "true" }), link(route.toJob(job), `${job.namespace}/${job.podGroup}`), job.pods > 1 ? ` ×${job.pods}` : ""),
  );
  if (node.more > 0) chips.push(element("li", {}, `and ${node.more} more`));
  const choose = () => parts.change({ node: node.name });
  return row(
    {},
    cell(
      { class: "job" },
      element("button", { type: "button", class: "plain", "data-part": "node", click: choose }, node.name),
      about ? element("span", { class: "sub" }, about) : null,
    ),
    cell({ class: "number", "data-title": "free" }, node.free, element("span", { class: "sub" }, `of ${node.total}`)),
    cell({ class: "node-list" }, element("ul", { class: "chips" }, chips)),
  );
}
