// The first screen: how much is free and who has the rest, what waits and why, and what starts next.

import { cell, command, element, empty, fillWith, link, panel, reconcile, row, shape, table } from "./dom.js";
import { kindOf, slotOf } from "./colors.js";
import { address, toJob, toQueue } from "./route.js";
import { ageSince, called, count, grouped, now, quantity, seenBy, unless, words } from "./format.js";
import { get } from "./api.js";
import * as chart from "./chart.js";
import * as decisions from "./decisions.js";
import { countsWhatFits, startOf, whereOf, whyOf } from "./jobs.js";
import { bar, legend, meetHolders, noQueues, scaleOf, shareOf } from "./queues.js";

const QUEUES = 10;
const NEXT = 6;
const HAVE = 6;
export const needs = ["jobs", "queues", "fairness", "decisions", "nodes"];
export const title = () => "Overview";

let parts = null;

const wide = matchMedia("(min-width: 1750px)");

export function enter(root) {
  const free = panel("free", "Free now");
  const waiting = panel("waiting", "What waits, and why", [link("#/jobs", "All jobs")]);
  const next = panel("next", "Next in line");
  const queues = panel("queues", "Queues", [link("#/queues", "All queues")]);
  queues.head.after(legend());
  const fairness = panel("fairness", "Fairness over the last hour");
  const log = panel("decisions", "Latest decisions", [link("#/decisions", "All decisions")]);
  const column = (kind, ...panels) => element("div", { class: `column ${kind}` }, panels.map((each) => each.whole));
  const columns = [column("first", free, queues), column("second", waiting, next), column("third", log)];
  const nothing = panel("nothing", "Nothing that you may see yet");
  nothing.whole.hidden = true;
  parts = { free, waiting, next, queues, fairness, log, nothing, columns };
  root.append(nothing.whole, ...columns);
  placeFairness();
}

// The chart stands where there is room for it: in the third column, if there is one.
function placeFairness() {
  const [first, , third] = parts.columns;
  (wide.matches ? third : first).append(parts.fairness.whole);
}

wide.addEventListener("change", () => {
  if (parts) placeFairness();
});

// What somebody needs who may see neither queues nor any job.
function nothingToSee(user) {
  const [, namespace, name] = user.match(/^system:serviceaccount:([^:]+):([^:]+)$/) ?? [];
  const subject = name ? `--serviceaccount=${namespace}:${name}` : `--user=${user}`;
  const grant = `kubectl create rolebinding vscheduler-page -n NAMESPACE --clusterrole=view ${subject}`;
  return [
    element(
      "div",
      { class: "text" },
      element("p", {}, `${user} may list neither queues nor PodGroups of a namespace that has jobs.`),
      element("p", {}, "Where the roles for tenants are installed, the role view of a namespace is enough to see its jobs. An administrator grants it with:"),
      element("div", { class: "command" }, command(grant)),
    ),
  ];
}

export async function load() {
  const [jobs, queues, fairness, log] = await Promise.all([
    get("jobs", { limit: NEXT }),
    get("queues", { order: "amount", limit: QUEUES }),
    get("fairness"),
    get("decisions", { limit: 8 }),
  ]);
  return { jobs, queues, fairness, log };
}

export function show(root, found, { about }) {
  const { visitor } = about;
  const blind = !visitor.queues && visitor.namespaces?.length === 0;
  parts.nothing.whole.hidden = !blind;
  for (const each of parts.columns) each.hidden = blind;
  if (blind) {
    fillWith(parts.nothing.body, visitor.name, () => nothingToSee(visitor.name));
    return;
  }
  const main = about.resources[0]?.name ?? found.queues.resources[0] ?? "cpu";
  const holders = meetHolders(found.queues.queues, main);
  const { holders: number = 0 } = found.queues;
  fillWith(parts.free.body, [about.resources, holders, number, about.visitor.queues], () => freeNow(about, holders, number));
  fillWith(parts.waiting.body, [found.jobs.reasons, found.jobs.states, about.instance.leads, visitor.namespaces], () => whyWaiting(found.jobs, about));
  next(parts.next.body, found.jobs, main, about);
  chart.show(parts.fairness.body, found.fairness, now(), chart.none(about)); // before the table: it gives colours
  queueList(parts.queues.body, found.queues, main, about);
  decisions.list(parts.log.body, found.log.decisions, decisions.none(about));
}

const has = (queue, name) => queue.resources[name]?.has.value ?? 0;

function freeNow(about, holders, number) {
  if (!about.resources.length) {
    const why = about.visitor.queues ? unless(about, "There are no nodes yet.") : "You may not list queues.";
    return [empty(why)];
  }
  const [main, ...others] = about.resources;
  const unit = called(main.name);
  const pieces = shares(main, holders, number);
  const lacks = main.wanted.value - main.ours.value - main.free.value;
  const said =
    lacks > 0
      ? `Jobs ask for ${quantity(main.name, lacks)} more than is free.`
      : main.wanted.value > main.ours.value
        ? "There is enough for all that wait, if it fits on the nodes."
        : "Nothing more is asked for.";
  return [
    element(
      "div",
      { class: "lead" },
      element("p", { class: "figure" }, element("strong", {}, grouped(main.free.text)), ` of ${grouped(main.total.text)} ${unit} free`),
      element("p", { class: "sub" }, said),
    ),
    stack(pieces, main.total.value),
    element(
      "ul",
      { class: "legend", "aria-label": `Who has the ${unit}` },
      pieces.map((piece) =>
        element(
          "li",
          {},
          element("span", { class: `swatch ${piece.kind}`, "aria-hidden": "true" }),
          piece.href ? link(piece.href, piece.name) : piece.name,
          " ",
          element("strong", {}, quantity(main.name, piece.value)),
        ),
      ),
    ),
    ...(others.length ? [element("ul", { class: "meters" }, others.slice(0, 4).map(meter))] : []),
  ];
}

// What the bar shows from left to right.
function shares(resource, holders, number) {
  const named = holders.slice(0, HAVE);
  const pieces = named.map((each) => ({
    name: each.name,
    kind: kindOf(each.name),
    value: has(each, resource.name),
    href: toQueue(each.name),
  }));
  const rest = Math.max(0, resource.ours.value - pieces.reduce((sum, each) => sum + each.value, 0));
  const more = number - named.length;
  const others = [
    [more > 0 ? count(more, "other queue") : "without a queue", "hue-0", rest],
    ["other schedulers", "others", resource.others.value],
    ["ending", "ending", resource.ending.value],
    ["reserved", "reserved", resource.reserved.value],
    ["on unusable nodes", "closed", resource.closed.value],
    ["free", "unused", resource.free.value],
  ];
  return [...pieces, ...others.map(([name, kind, value]) => ({ name, kind, value }))].filter((each) => each.value > 1e-6);
}

function stack(pieces, total) {
  const made = shape("svg", { class: "stack", "aria-hidden": "true" });
  let at = 0;
  for (const piece of pieces) {
    const width = (100 * piece.value) / total;
    made.append(shape("rect", { class: piece.kind, x: `${at}%`, width: `${width}%`, height: "100%" }));
    at += width;
  }
  return made;
}

function meter(resource) {
  const pieces = [
    { kind: "hue-0", value: resource.ours.value },
    { kind: "others", value: resource.others.value + resource.ending.value },
    { kind: "reserved", value: resource.reserved.value },
    { kind: "closed", value: resource.closed.value },
    { kind: "unused", value: resource.free.value },
  ].filter((each) => each.value > 0);
  return element(
    "li",
    {},
    element("span", { class: "name" }, resource.name),
    stack(pieces, resource.total.value),
    element("span", { class: "number" }, element("strong", {}, grouped(resource.free.text)), ` of ${grouped(resource.total.text)} free`),
  );
}

function whyWaiting(jobs, about) {
  const { waiting, running, finished } = jobs.states;
  const tally = element(
    "ul",
    { class: "tally" },
    [["waiting", waiting, waiting === 1 ? "waits" : "wait"], ["running", running, running === 1 ? "runs" : "run"], ["finished", finished, "finished"]].map(
      ([state, number, verb]) => element("li", {}, link(address("jobs", [], { state }), element("strong", {}, grouped(number)), ` ${verb}`)),
    ),
  );
  if (about.visitor.namespaces?.length) tally.append(element("li", { class: "sub" }, `in ${scopeOf(about.visitor.namespaces)}`));
  if (!waiting) {
    const none = `No job${seenBy(about.visitor)} waits.`;
    const first = running + finished ? "" : " Jobs appear here once their pods name this scheduler in spec.schedulerName.";
    return [tally, empty(unless(about, none + first))];
  }
  const most = jobs.reasons[0].jobs;
  const reasons = jobs.reasons.map((each) =>
    element(
      "li",
      {},
      each.reason !== ""
        ? link(address("jobs", [], { reason: each.reason }), words(each.reason))
        : element("span", {}, words("")),
      share(each.jobs / most),
      element("span", { class: "number" }, grouped(each.jobs)),
    ),
  );
  return [tally, element("ul", { class: "reasons" }, reasons)];
}

// Where the jobs are that are counted; queues count those of other tenants as well.
const scopeOf = (namespaces) => (namespaces.length > 3 ? count(namespaces.length, "namespace") : namespaces.join(", "));

const share = (part) =>
  shape("svg", { class: "part", "aria-hidden": "true" }, shape("rect", { class: "hue-0", width: `${100 * part}%`, height: "100%" }));

function next(body, jobs, main, about) {
  if (!jobs.jobs.length) {
    body.replaceChildren(empty(unless(about, "The line is empty.")));
    return;
  }
  let list = body.querySelector(".line-up");
  if (!list) {
    list = element("ol", { class: "line-up" });
    const note = "What fits is counted at each job's turn; what is free, after the turns of all jobs.";
    body.replaceChildren(list, element("p", { class: "sub more-jobs" }, note));
  }
  body.lastElementChild.hidden = !jobs.jobs.some(countsWhatFits);
  reconcile(list, jobs.jobs.map((job) => ({ job, main })), ({ job }) => `${job.namespace}/${job.podGroup}`, nextOne);
}

function nextOne({ job, main }) {
  const amount = job.amounts[main] ?? job.amounts.cpu;
  const unit = job.amounts[main] ? called(main) : "CPUs";
  const about = [...(amount ? [`${grouped(amount.text)} ${unit}`] : []), count(job.pods.total || job.pods.minimum, "pod")];
  return element(
    "li",
    {},
    element("span", { class: "place" }, job.place ? grouped(job.place.overall) : "–"),
    element(
      "div",
      {},
      element(
        "p",
        { class: "first" },
        link(toJob(job), job.workload),
        element("span", { class: "since", "data-since": job.waitingSince, title: "waiting" }, ageSince(job.waitingSince)),
      ),
      element("p", { class: "sub" }, whereOf(job), ", ", about.join(", ")),
      element("p", {}, job.startsBy ? startOf(job) : whyOf(job)),
    ),
  );
}

function queueList(body, found, main, about) {
  if (!found.count) {
    body.replaceChildren(empty(noQueues(about)));
    return;
  }
  let list = body.firstElementChild;
  if (!list?.matches("table")) {
    const made = table("Queues", [
      ["Queue", ""], [element("span", { class: "hidden" }, "Bar"), ""], ["Has", "number"], ["Wants", "number"], ["Share", "number"], ["Jobs", "number"],
    ]);
    list = made.whole;
    body.replaceChildren(list, element("p", { class: "sub more-queues" }));
  }
  const shown = found.queues;
  const scale = scaleOf(shown, main);
  reconcile(list.querySelector("tbody"), shown.map((queue) => ({ queue, scale, main, slot: slotOf(queue.name) })), (item) => item.queue.name, queueRow);
  const rest = found.count - shown.length;
  body.lastElementChild.textContent = rest > 0 ? `${count(rest, "more queue")}` : "";
}

function queueRow({ queue, scale, main }) {
  const figure = queue.resources[main];
  const deserves = figure?.deserves?.value > 0 ? element("span", { class: "sub" }, `deserves ${grouped(figure.deserves.text)}`) : null;
  const reserved = figure?.reserved ? element("span", { class: "sub" }, `${grouped(figure.reserved.text)} reserved`) : null;
  return row(
    {},
    cell(
      { class: "queue" },
      element("span", { class: `swatch ${kindOf(queue.name)}`, "aria-hidden": "true" }),
      link(toQueue(queue.name), queue.name),
      queue.state === "Open" ? null : element("span", { class: "sub" }, queue.state),
    ),
    cell({ class: "bar-cell" }, bar(figure, scale, kindOf(queue.name))),
    cell({ class: "number", "data-title": "has" }, grouped(figure?.has.text ?? "0"), deserves, reserved),
    cell({ class: "number", "data-title": "wants" }, grouped(figure?.wants.text ?? "0")),
    cell({ class: "number", "data-title": "share" }, ...shareOf(queue, main)),
    cell(
      { class: "number", "data-title": "jobs" },
      `${grouped(queue.jobs.running)} run`,
      element("span", { class: "sub" }, `${grouped(queue.jobs.waiting)} wait`),
    ),
  );
}
