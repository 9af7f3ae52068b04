// Jobs: those that wait, in the order of their turns, with their reasons; those that run, and those
// that have finished.

import { cell, choice, element, empty, fillWith, link, pager, panel, reconcile, row, searchField, table } from "./dom.js";
import * as route from "./route.js";
import { ageSince, called, count, grouped, moment, seenBy, unless, words } from "./format.js";
import { get } from "./api.js";

const PAGE = 50;
const STATES = [["waiting", "Waiting"], ["running", "Running"], ["finished", "Finished"], ["all", "All"]];
export const needs = ["jobs"];
export const title = () => "Jobs";

let parts = null;
let offset = 0;

export function enter(root, { query, reload }) {
  offset = 0;
  const change = (more) => {
    offset = 0;
    route.change(more);
    reload();
  };
  const states = choice("state", "Which jobs", STATES, query.state ?? "waiting", (state) => change({ state, reason: "" }));
  const fields = [["Any name", "search"], ["Queue", "queue"], ["Namespace", "namespace"]];
  const filters = element(
    "div",
    { class: "filters" },
    fields.map(([label, name]) => searchField(label, query[name] ?? "", (value) => change({ [name]: value }))),
  );
  const made = panel("jobs", "Jobs", [states, filters]);
  const reasons = element("ul", { class: "choices", "aria-label": "Waiting jobs by reason" });
  made.head.after(reasons);
  root.append(made.whole);
  parts = { ...made, reasons, states, change };
}

export function load({ query }) {
  const { state = "waiting", search = "", queue = "", namespace = "", reason = "" } = query;
  return get("jobs", { state, search, queue, namespace, reason, offset, limit: PAGE });
}

export function show(root, found, { about, query, reload }) {
  const state = query.state ?? "waiting";
  for (const input of parts.states.querySelectorAll("input")) {
    const number = found.states[input.value];
    const text = STATES.find(([value]) => value === input.value)[1];
    input.nextElementSibling.textContent = number === undefined ? text : `${text} ${grouped(number)}`;
    input.checked = input.value === state;
  }
  byReason(found.reasons, query, state);
  if (!found.count) {
    parts.body.replaceChildren(empty(nothing(about, query, state)));
    return;
  }
  if (offset >= found.count) {
    offset = 0;
    reload();
    return;
  }
  list(parts.body, found.jobs, state, about.resources[0]?.name);
  pager(parts.body, found.offset, found.jobs.length, found.count, (way) => {
    offset = Math.max(0, offset + way * PAGE);
    reload();
  });
}

function byReason(reasons, query, state) {
  const shown = state === "waiting" && (reasons.length > 1 || query.reason) ? reasons : [];
  const one = ({ reason, jobs }) => {
    const chosen = query.reason === reason && reason !== "";
    const press = () => parts.change({ reason: chosen ? "" : reason });
    const attributes = { type: "button", "aria-pressed": String(chosen), "data-part": reason, click: press };
    return element("li", {}, element("button", attributes, `${words(reason)} `, element("strong", {}, grouped(jobs))));
  };
  fillWith(parts.reasons, [shown, query.reason], () => shown.filter((each) => each.reason).map(one));
}

function nothing(about, query, state) {
  if (query.search || query.queue || query.namespace || query.reason) return "No job matches.";
  const verb = { waiting: "waits", running: "runs", finished: "has finished", all: "is there" }[state];
  return unless(about, `No job${seenBy(about.visitor)} ${verb ?? "is there"}.`);
}

// A table of jobs, those of one state, or of all.
export function list(body, jobs, state, resource) {
  const columns = {
    waiting: [["Job", ""], ["Place", "number"], ["Pods", "number"], ["Asks for", "number"], ["Waiting", "number"], ["Why", ""]],
    running: [["Job", ""], ["Pods", "number"], ["Has", "number"], ["Age", "number"], ["On nodes", ""]],
  };
  const kind = state === "waiting" ? "waiting" : "running";
  let whole = body.querySelector("table");
  if (!whole || whole.dataset.kind !== kind) {
    whole = table("Jobs", columns[kind]).whole;
    whole.dataset.kind = kind;
    body.replaceChildren(whole);
  }
  const items = jobs.map((job) => ({ job, kind, resource, all: state === "all" }));
  reconcile(whole.querySelector("tbody"), items, ({ job }) => `${job.namespace}/${job.podGroup}`, rowOf);
}

function rowOf({ job, kind, resource, all }) {
  const name = cell(
    { class: "job" },
    link(route.toJob(job), job.workload),
    element("span", { class: "sub" }, whereOf(job)),
  );
  const pods = cell({ class: "number", "data-title": "pods" }, ...podsOf(job));
  const amount = cell({ class: "number", "data-title": kind === "waiting" ? "asks for" : "has" }, ...amountOf(job, resource));
  if (kind === "running") {
    const since = element("span", { "data-since": job.created }, ageSince(job.created));
    const state = all ? [element("span", { class: "sub" }, job.waitingSince ? "waits" : job.state.toLowerCase())] : [];
    return row({}, name, pods, amount, cell({ class: "number", "data-title": "age" }, since, state), nodesOf(job));
  }
  const place = job.place
    ? [grouped(job.place.overall), element("span", { class: "sub aside" }, `${grouped(job.place.inQueue)} of ${grouped(job.place.ofQueue)} in queue`)]
    : ["–"];
  const since = element("span", { "data-since": job.waitingSince }, ageSince(job.waitingSince));
  const promise = job.startsBy ? [element("span", { class: "sub" }, `starts by ${moment(job.startsBy)}`)] : [];
  return row(
    {},
    name,
    cell({ class: "number", "data-title": "place", title: job.place?.sentence ?? null }, ...place),
    pods,
    amount,
    cell({ class: "number", "data-title": "waiting" }, since),
    cell({ class: "reason" }, whyOf(job), promise),
  );
}

// Namespace and queue of a job; often they have the same name.
export function whereOf(job) {
  return [`${job.namespace === job.queue ? "" : `${job.namespace}, `}queue `, link(route.toQueue(job.queue), job.queue)];
}

// How many pods run, and how many have to start together unless it is all of them.
function podsOf({ pods }) {
  const least = pods.minimum === pods.total ? null : element("span", { class: "sub aside" }, `at least ${grouped(pods.minimum)}`);
  return [`${grouped(pods.running)} of ${grouped(pods.total)}`, least];
}

export const startOf = (job) => `Starts by ${moment(job.startsBy)} if running pods end by their limits.`;

// Whether the reason says how many of its pods fit: jobs behind it may have got what was free then.
export const countsWhatFits = (job) => job.reason === "NotEnoughResources";

export function whyOf(job) {
  if (job.short) return job.short;
  return job.nodes.count ? "Its pods are being bound." : "The scheduler hasn't said anything about it yet.";
}

function amountOf(job, resource) {
  const name = job.amounts[resource] ? resource : "cpu";
  const found = job.amounts[name];
  return found ? [grouped(found.text), element("span", { class: "sub" }, called(name))] : ["–"];
}

function nodesOf(job) {
  const { nodes } = job;
  if (!nodes.named) return cell({ class: "node-list" }, count(nodes.count, "node"));
  const chips = nodes.named.map((each) =>
    element("li", {}, link(route.toNode(each.name), each.pods === 1 ? each.name : `${each.name} ×${each.pods}`)),
  );
  if (nodes.count > chips.length) {
    chips.push(element("li", {}, link(route.address("nodes", [], { search: job.podGroup }), `and ${grouped(nodes.count - chips.length)} more`)));
  }
  return cell({ class: "node-list" }, element("ul", { class: "chips" }, chips));
}
