// A chart of what was used over time: one area above the other, each the mean of a step.

import { element, empty, fillWith, link, shape } from "./dom.js";
import { called, count, quantity } from "./format.js";
import { kindOf } from "./colors.js";

const HEIGHT = 220;
const LEFT = 52;
const BOTTOM = 22;
const TOP = 10;

const watcher = new ResizeObserver((entries) => {
  for (const { target } of entries) if (target.lastArea) draw(target, target.lastArea);
});

// `found` is an answer about use; `href` gives the address for the name of a series.
export function show(body, found) {
  if (!body.lastArea) watcher.observe(body);
  body.lastArea = found;
  draw(body, found);
}

function draw(body, { usage, resource, total, href }) {
  const { times, until } = usage;
  const series = usage.series
    .map((each) => ({ ...each, values: each.used[resource] ?? [] }))
    .filter((each) => each.values.some((value) => value > 0))
    .sort((one, other) => Number(one.name === "") - Number(other.name === "") || sum(other.values) - sum(one.values));
  if (!series.length) {
    const none = `No ${called(resource)} were used in this time.`;
    fillWith(body, none, () => [empty(none)]);
    return;
  }
  const width = Math.max(260, body.clientWidth - 32);
  const sums = times.map((_, at) => series.reduce((all, each) => all + (each.values[at] ?? 0), 0));
  const most = Math.max(...sums, total ?? 0) * 1.05 || 1;
  const x = (time) => LEFT + ((width - LEFT - 4) * (time - times[0])) / (until - times[0] || 1);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most);
  const chart = shape("svg", { class: "chart area", viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" });
  axes(chart, { width, most, x, y, times, until, resource, total });
  let below = times.map(() => 0);
  for (const each of series) {
    const above = below.map((value, at) => value + (each.values[at] ?? 0));
    chart.append(shape("path", { class: each.name ? kindOf(each.name) : "hue-0", d: outline(below, above, times, until, x, y) }));
    below = above;
  }
  const state = [times, until, series, resource, total, width];
  fillWith(body, state, () => [element("div", { class: "plot" }, chart), names(series, resource, href)]);
}

const sum = (values) => values.reduce((one, other) => one + other, 0);

function outline(below, above, times, until, x, y) {
  const edge = (at) => x(times[at] ?? until).toFixed(1);
  const up = above.map((value, at) => `${at ? "V" : ""}${at ? y(value).toFixed(1) : ""}H${edge(at + 1)}`);
  const down = below.map((value, at) => `V${y(value).toFixed(1)}H${edge(at)}`).reverse();
  return `M${edge(0)},${y(above[0]).toFixed(1)}${up.join("")}${down.join("")}Z`;
}

function axes(chart, { width, most, x, y, times, until, resource, total }) {
  const step = niceStep(most / 4);
  for (let value = 0; value <= most; value += step) {
    chart.append(
      shape("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) }),
      shape("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, quantity(resource, value)),
    );
  }
  if (total) {
    chart.append(
      shape("line", { class: "one", x1: LEFT, x2: width, y1: y(total), y2: y(total) }),
      shape("text", { x: LEFT + 6, y: y(total) - 4 }, "all there is now"),
    );
  }
  const span = until - times[0];
  for (const part of [0, 0.5, 1]) {
    const time = times[0] + span * part;
    const anchor = ["start", "middle", "end"][part * 2];
    chart.append(shape("text", { x: x(time), y: HEIGHT - 4, "text-anchor": anchor }, part === 1 ? "now" : when(time, span)));
  }
}

function when(time, span) {
  const then = new Date(time * 1000);
  const day = then.toLocaleDateString([], { month: "short", day: "numeric" });
  const clock = then.toLocaleTimeString([], { hour12: false, hour: "2-digit", minute: "2-digit" });
  return span > 3 * 86400 ? day : span > 43200 ? `${day} ${clock}` : clock;
}

export function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
}

function names(series, resource, href) {
  const items = series.map((each) => {
    const text = each.name || (each.names === undefined ? "all others" : count(each.names, "other"));
    const mean = sum(each.values) / (each.values.length || 1);
    return element(
      "li",
      {},
      element("span", { class: `swatch ${each.name ? kindOf(each.name) : "hue-0"}`, "aria-hidden": "true" }),
      each.name && href ? link(href(each.name), text) : text,
      " ",
      element("strong", {}, quantity(resource, mean)),
    );
  });
  const said = element("li", { class: "hint" }, `${called(resource)} on average:`);
  return element("ul", { class: "legend", "aria-label": `Mean use of ${called(resource)}` }, said, items);
}
