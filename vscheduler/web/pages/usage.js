// The past: how much was used, by whom, how long jobs waited, and what has finished; shares over the
// last hour.

import { cell, choice, element, empty, fillWith, link, panel, reconcile, row, table } from "./dom.js";
import { Refused, get } from "./api.js";
import { age, called, grouped, moment, now, quantity, seenBy } from "./format.js";
import { change, toJob, toQueue } from "./route.js";
import { kindOf, meet } from "./colors.js";
import { whereOf } from "./jobs.js";
import { chooseResource } from "./queues.js";
import * as area from "./area.js";
import * as chart from "./chart.js";

const RANGES = [["1h", "Hour"], ["1d", "Day"], ["7d", "Week"], ["30d", "30 days"], ["90d", "90 days"]];
const KINDS = [["queue", "Queues"], ["namespace", "Namespaces"], ["user", "Users"]];
const KEPT_SECONDS = 30;
const PAGE = 25;
export const needs = ["fairness"];
export const title = () => "History";

let parts = null;
let kept = null;
let pages = [];

export function enter(root, { query, reload }) {
  kept = null;
  pages = [];
  const choose = (more) => {
    pages = [];
    change(more);
    reload();
  };
  const resources = element("div", {});
  const choices = [
    choice("since", "Time", RANGES, query.since ?? "1d", (since) => choose({ since })),
    choice("by", "By", KINDS, query.by ?? "queue", (by) => choose({ by })),
    resources,
  ];
  const usage = panel("usage", "Used", choices);
  const report = panel("report", "Who used it, and how long jobs waited");
  const jobs = panel("past", "Jobs of this time");
  const fairness = panel("fairness", "Fairness over the last hour");
  parts = { usage, report, jobs, fairness, choices, resources, choose };
  root.append(usage.whole, report.whole, fairness.whole, jobs.whole);
}

export async function load({ query }) {
  const { since = "1d", by = "queue" } = query;
  const key = JSON.stringify([since, by, pages]);
  const fairness = get("fairness");
  if (kept?.key !== key || now() - kept.at > KEPT_SECONDS) {
    kept = { key, at: now(), ...(await past(since, by)) };
  }
  return { fairness: await fairness, past: kept };
}

// Whether the page has answered that there is nothing to see, such as no history.
const isAnswer = (error) => error instanceof Refused && error.status !== 401 && error.status !== 0;

async function past(since, by) {
  try {
    const [usage, report, jobs] = await Promise.all([
      get("history/usage", { since, by }),
      get("history/report", { since, by }),
      get("history/jobs", { since, limit: PAGE, before: pages.at(-1) ?? "" }),
    ]);
    return { usage, report, jobs };
  } catch (error) {
    if (isAnswer(error)) return { problem: error.message, none: error.status === 404 };
    throw error;
  }
}

export function show(root, found, { about, query, reload }) {
  const { problem, none = false } = found.past;
  for (const each of parts.choices) each.hidden = none;
  for (const part of [parts.report, parts.jobs]) part.whole.hidden = Boolean(problem);
  if (problem) {
    parts.usage.body.lastArea = null;
    fillWith(parts.usage.body, problem, () => [empty(problem)]);
    chart.show(parts.fairness.body, found.fairness, now(), chart.none(about));
    return;
  }
  const { usage, report, jobs } = found.past;
  const by = query.by ?? "queue";
  const used = new Set(usage.series.flatMap((each) => Object.keys(each.used)));
  const known = about.resources.map((each) => each.name);
  const names = [...known.filter((name) => used.has(name)), ...[...used].filter((name) => !known.includes(name) && name !== "pods")].slice(0, 6);
  const resource = names.includes(query.resource) ? query.resource : names[0] ?? "cpu";
  chooseResource(parts.resources, names, resource, (name) => parts.choose({ resource: name }));
  const rows = largestFirst(report.rows, resource);
  if (by === "queue") meet(rows.map((each) => each.name));
  const total = about.resources.find((each) => each.name === resource)?.total.value;
  area.show(parts.usage.body, { usage, resource, total, href: by === "queue" ? toQueue : null });
  reportOf(parts.report.body, rows, resource, by, seenBy(about.visitor));
  jobsOf(parts.jobs.body, jobs, reload, seenBy(about.visitor));
  chart.show(parts.fairness.body, found.fairness, now(), chart.none(about));
}

const hours = (seconds) => seconds / 3600;

const largestFirst = (rows, resource) =>
  [...rows].sort((one, other) => (other.podSeconds[resource] ?? 0) - (one.podSeconds[resource] ?? 0) || (one.name < other.name ? -1 : 1));

function reportOf(body, rows, resource, by, seen) {
  if (!rows.length) {
    body.replaceChildren(empty(`Nothing${seen} ran in this time.`));
    return;
  }
  const title = `${called(resource, 1)} hours`;
  let whole = body.querySelector("table");
  if (whole?.dataset.kind !== `${by} ${title}`) {
    const noun = KINDS.find(([kind]) => kind === by)[1].slice(0, -1);
    whole = table("Use", [
      [noun, ""], [title, "number"], ["Jobs finished", "number"], ["Median wait", "number"], ["90 % within", "number"], ["Longest", "number"], ["Pods evicted", "number"],
    ]).whole;
    whole.dataset.kind = `${by} ${title}`;
    body.replaceChildren(whole);
  }
  const items = rows.slice(0, 100).map((each) => ({ ...each, by, resource, title }));
  reconcile(whole.querySelector("tbody"), items, (item) => item.name, reportRow);
}

function reportRow(item) {
  const { waits } = item;
  const wait = (seconds) => (waits ? age(seconds) : "–");
  const name = item.name || "without a name";
  return row(
    {},
    cell(
      { class: "queue" },
      item.by === "queue" ? element("span", { class: `swatch ${kindOf(item.name)}`, "aria-hidden": "true" }) : null,
      item.by === "queue" && item.name ? link(toQueue(item.name), name) : name,
    ),
    cell({ class: "number", "data-title": item.title }, quantity(item.resource, hours(item.podSeconds[item.resource] ?? 0))),
    cell({ class: "number", "data-title": "finished" }, grouped(item.finished)),
    cell({ class: "number", "data-title": "median wait" }, wait(waits?.p50)),
    cell({ class: "number", "data-title": "90 % within" }, wait(waits?.p90)),
    cell({ class: "number", "data-title": "longest" }, wait(waits?.max)),
    cell({ class: "number", "data-title": "evicted" }, grouped(item.evictions.pods)),
  );
}

function jobsOf(body, found, reload, seen) {
  if (!found.jobs.length) {
    body.replaceChildren(empty(`No job${seen} existed in this time.`));
    return;
  }
  let whole = body.querySelector("table");
  if (!whole) {
    whole = table("Jobs of the past", [
      ["Job", ""], ["User", ""], ["State", ""], ["Created", "number"], ["Waited", "number"], ["Ran", "number"], ["Pods", "number"], ["Evicted", "number"],
    ]).whole;
    body.replaceChildren(whole, element("div", { class: "pages" }));
  }
  reconcile(whole.querySelector("tbody"), found.jobs, (job) => `${job.namespace}/${job.podGroup}/${job.created}`, pastRow);
  const step = (more) => {
    more();
    reload();
  };
  fillWith(body.querySelector(".pages"), [pages, found.next ?? null], () => [
    element("button", { type: "button", "data-part": "before", disabled: !pages.length, click: () => step(() => pages.pop()) }, "Later"),
    element("button", { type: "button", "data-part": "after", disabled: !found.next, click: () => step(() => pages.push(found.next)) }, "Earlier"),
  ]);
}

const seconds = (time) => Date.parse(time) / 1000;

function pastRow(job) {
  const ended = job.finished ? seconds(job.finished) : now();
  return row(
    {},
    cell(
      { class: "job" },
      link(toJob(job), job.workload || job.podGroup),
      element("span", { class: "sub" }, whereOf(job)),
    ),
    cell({ "data-title": "user" }, job.user || "–"),
    cell({ "data-title": "state" }, job.state),
    cell({ class: "number", "data-title": "created" }, job.created ? moment(job.created) : "–"),
    cell({ class: "number", "data-title": "waited" }, job.waitSeconds === null || job.waitSeconds === undefined ? "–" : age(job.waitSeconds)),
    cell({ class: "number", "data-title": "ran" }, job.started ? age(ended - seconds(job.started)) : "–"),
    cell({ class: "number", "data-title": "pods" }, grouped(job.pods)),
    cell({ class: "number", "data-title": "evicted" }, grouped(job.evicted)),
  );
}

// What is known of a job that isn't there any more; null if nothing is.
export async function ofJob([namespace, podGroup]) {
  try {
    const found = await get("history/jobs", { namespace, name: podGroup, limit: 20 });
    return found.jobs.find((job) => job.podGroup === podGroup) ?? null;
  } catch (error) {
    if (isAnswer(error)) return null;
    throw error;
  }
}

// The use of one queue, or null if no history is kept.
export async function ofQueue(queue, since) {
  try {
    return await get("history/usage", { since, queue });
  } catch (error) {
    if (isAnswer(error)) return null;
    throw error;
  }
}
