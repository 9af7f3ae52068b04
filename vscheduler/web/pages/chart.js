// The chart of fairness: the share of a few queues over the last hour. 1 is what a queue deserves.

import { byId, element, empty, shape } from "./dom.js";

const HEIGHT = 190;
const LEFT = 34;
const BOTTOM = 22;
const TOP = 8;
const HOUR = 3600;
const HIGHEST = 3;

let last = null;

// The chart is as wide as its place, so that its text keeps its shape.
new ResizeObserver(() => last && show(...last)).observe(byId("fairness-body"));

export function show(found, now) {
  last = [found, now];
  const body = byId("fairness-body");
  const width = Math.max(240, body.clientWidth - 32);
  if (!found.queues.length) {
    body.replaceChildren(empty("No queue has or wants anything, or you may not list queues."));
    return;
  }
  const shares = found.queues.flatMap((queue) => queue.shares.filter((each) => each !== null));
  const most = Math.min(HIGHEST, Math.max(1.25, ...shares) * 1.05);
  const x = (time) => LEFT + ((width - LEFT - 4) * (time - (now - HOUR))) / HOUR;
  const y = (share) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - Math.min(share, most) / most);
  const chart = shape("svg", {
    class: "chart",
    viewBox: `0 0 ${width} ${HEIGHT}`,
    "aria-hidden": "true",
  });
  axes(chart, width, most, x, y, now);
  found.queues.forEach((queue, at) => {
    for (const points of runs(found.times, queue.shares, now)) {
      const text = points.map(([time, share]) => `${x(time).toFixed(1)},${y(share).toFixed(1)}`);
      chart.append(shape("polyline", { class: `line-${at + 1}`, points: text.join(" ") }));
    }
  });
  body.replaceChildren(element("div", { class: "plot" }, chart), lines(found));
}

function axes(chart, width, most, x, y, now) {
  for (let share = 0; share <= most; share += 0.5) {
    chart.append(
      shape("line", { class: share === 1 ? "one" : "grid", x1: LEFT, x2: width, y1: y(share), y2: y(share) }),
      shape("text", { x: LEFT - 8, y: y(share) + 4, "text-anchor": "end" }, share.toFixed(1)),
    );
  }
  chart.append(shape("text", { x: LEFT + 6, y: y(1) - 5 }, "what it deserves"));
  for (const [minutes, anchor] of [[60, "start"], [30, "middle"], [0, "end"]]) {
    const words = minutes ? `${minutes}m ago` : "now";
    chart.append(shape("text", { x: x(now - minutes * 60), y: HEIGHT - 4, "text-anchor": anchor }, words));
  }
}

// Pieces of a line: a queue that has and wants nothing has no share.
function runs(times, shares, now) {
  const found = [];
  let piece = [];
  shares.forEach((share, at) => {
    if (share === null) {
      if (piece.length) found.push(piece);
      piece = [];
    } else {
      piece.push([Math.max(times[at], now - HOUR), share]);
    }
  });
  if (piece.length) found.push([...piece, [now, piece.at(-1)[1]]]);
  return found;
}

function lines(found) {
  const items = found.queues.map((queue, at) => {
    const line = { class: `line-${at + 1}`, x1: 0, x2: 30, y1: 4, y2: 4 };
    const share = queue.shares.at(-1);
    return element(
      "li",
      {},
      shape("svg", { "aria-hidden": "true" }, shape("line", line)),
      element("span", {}, `${queue.name} `, element("strong", {}, share === null ? "–" : share.toFixed(2))),
    );
  });
  const others = found.count - items.length;
  if (others > 0) {
    items.push(element("li", {}, `${others} queues that are nearer to what they deserve`));
  }
  return element("ul", { class: "lines", "aria-label": "Shares now: has ÷ deserves" }, items);
}
