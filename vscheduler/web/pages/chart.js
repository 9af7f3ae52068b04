// A chart of lines over time: shares of queues, of which 1 is what a queue deserves.

import { element, empty, fillWith, link, shape } from "./dom.js";
import { kindOf, meet, slotOf } from "./colors.js";
import { toQueue } from "./route.js";
import { niceStep } from "./area.js";
import { grouped, unless } from "./format.js";

const HEIGHT = 190;
const LEFT = 34;
const BOTTOM = 22;
const TOP = 8;
const HOUR = 3600;
const HIGHEST = 3;
const GAP_SECONDS = 60;

// The chart is as wide as its place, so that its text keeps its shape.
const watcher = new ResizeObserver((entries) => {
  for (const { target } of entries) if (target.lastFound) draw(target, ...target.lastFound);
});

export const none = (about) =>
  about.visitor.queues ? unless(about, "No queue has or wants anything.") : "You may not list queues.";

// `nothing` stands where there is no share to show.
export function show(body, found, now, nothing = "") {
  if (!body.lastFound) watcher.observe(body);
  body.lastFound = [found, now, nothing];
  draw(body, found, now, nothing);
}

function draw(body, found, now, nothing) {
  const width = Math.max(240, body.clientWidth - 32);
  if (!found.queues.length) {
    fillWith(body, nothing, () => [empty(nothing)]);
    return;
  }
  meet(found.queues.map((queue) => queue.name));
  const shares = found.queues.flatMap((queue) => queue.shares.filter((each) => each !== null));
  // Higher shares are cut, unless all are: the line of 1 stays readable.
  const highest = shares.some((share) => share < HIGHEST) ? HIGHEST : Infinity;
  const most = Math.min(highest, Math.max(1.25, ...shares)) * 1.05;
  // As much time as there is something of, in whole tens of minutes.
  const span = Math.min(HOUR, Math.max(600, 600 * Math.ceil((now - (found.times[0] ?? now)) / 600)));
  const x = (time) => LEFT + ((width - LEFT - 4) * (time - (now - span))) / span;
  const y = (share) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - Math.min(share, most) / most);
  const chart = shape("svg", { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" });
  axes(chart, { width, most, x, y, now, span, cut: shares.some((share) => share > most) });
  found.queues.forEach((queue, at) => {
    for (const points of runs(found, queue, now)) {
      const text = points.map(([time, share]) => `${x(time).toFixed(1)},${y(share).toFixed(1)}`);
      chart.append(shape("polyline", { class: `line ${kindOf(queue.name)} dash-${slotOf(queue.name) || at + 1}`, points: text.join(" ") }));
    }
  });
  chart.append(shape("text", { class: "over-lines", x: LEFT + 6, y: y(1) - 5 }, "what it deserves"));
  fillWith(body, [found, now, width], () => [element("p", { class: "sub axis" }, "share: has ÷ deserves"), element("div", { class: "plot" }, chart), lines(found)]);
}

function axes(chart, { width, most, x, y, now, span, cut }) {
  const step = most > 4 ? niceStep(most / 5) : 0.5;
  for (let share = 0; share <= most; share += step) {
    chart.append(
      shape("line", { class: "grid", x1: LEFT, x2: width, y1: y(share), y2: y(share) }),
      shape("text", { x: LEFT - 8, y: y(share) + 4, "text-anchor": "end" }, `${share.toFixed(1)}${cut && share + step > most ? "+" : ""}`),
    );
  }
  chart.append(shape("line", { class: "one", x1: LEFT, x2: width, y1: y(1), y2: y(1) }));
  const whole = span / 60;
  for (const [minutes, anchor] of [[whole, "start"], [whole / 2, "middle"], [0, "end"]]) {
    const words = minutes ? `${minutes}m ago` : "now";
    chart.append(shape("text", { x: x(now - minutes * 60), y: HEIGHT - 4, "text-anchor": anchor }, words));
  }
}

// Pieces of a line: a queue that has and wants nothing has no share, and nobody noted any while
// another instance led. The last piece ends with the share of this moment.
function runs({ times, now: current }, queue, now) {
  const found = [];
  let piece = [];
  const points = queue.shares.map((share, at) => [times[at], share]);
  if (queue.name in current) points.push([now, current[queue.name]]);
  for (const [time, share] of points) {
    const last = piece.at(-1);
    if (piece.length && (share === null || time - last[0] > GAP_SECONDS)) {
      found.push(piece);
      piece = [];
    }
    if (share !== null) piece.push([Math.max(time, now - HOUR), share]);
  }
  if (piece.length) found.push(piece);
  return found.map((each) => (each.length > 1 ? each : [[each[0][0] - 5, each[0][1]], each[0]]));
}

function lines(found) {
  const items = found.queues.map((queue, at) => {
    const kind = `line ${kindOf(queue.name)} dash-${slotOf(queue.name) || at + 1}`;
    const share = found.now[queue.name] ?? null;
    return element(
      "li",
      {},
      shape("svg", { "aria-hidden": "true" }, shape("line", { class: kind, x1: 0, x2: 30, y1: 4, y2: 4 })),
      element("span", {}, link(toQueue(queue.name), queue.name), " ", element("strong", {}, share === null ? "–" : share.toFixed(2))),
    );
  });
  const others = found.count - items.length;
  if (others > 0) items.push(element("li", {}, `${grouped(others)} more ${others === 1 ? "is" : "are"} nearer to what ${others === 1 ? "it deserves" : "they deserve"}`));
  return element("ul", { class: "lines", "aria-label": "Shares now" }, items);
}
