// One queue: what it has, deserves and wants of each resource, its shares, the queues below it, and
// its jobs.

import { byId, cell, definitions, element, fillWith, link, panel, reconcile, row, table } from "./dom.js";
import { Refused, get } from "./api.js";
import { address, toJob, toQueue } from "./route.js";
import { kindOf, meet } from "./colors.js";
import { bar, largestOf, legend, list as queueList } from "./queues.js";
import { called, count, grouped, now } from "./format.js";
import { list as jobList } from "./jobs.js";
import { ofQueue } from "./usage.js";
import * as area from "./area.js";
import * as chart from "./chart.js";

const JOBS = 10;
const KEPT_SECONDS = 60;
export const needs = ["queues", "jobs", "fairness"];
export const heads = true; // its heading is the name
export const title = ([name]) => `Queue ${name}`;
export const part = () => "queues";

let parts = null;
let week = null;

export function enter(root, { names: [name] }) {
  const facts = element("section", { class: "panel about" });
  const amounts = panel("queues amounts", "Resources");
  amounts.head.after(legend());
  const below = panel("queues below", "Queues below it");
  const share = panel("fairness", "Share over the last hour");
  const used = panel("usage", "Used over the last week", [link("#/history", "All queues")]);
  const jobs = ["waiting", "running"].map((state) => {
    const text = state === "waiting" ? "Waiting jobs" : "Running jobs";
    return { state, ...panel(`jobs ${state}`, text, [link(address("jobs", [], { state, queue: name }), "All")]) };
  });
  const trial = panel("trial", "What if …");
  trial.body.append(form(name));
  parts = { facts, amounts, below, share, used, jobs, trial, resources: "" };
  week = null;
  root.append(
    facts,
    element("div", { class: "column first" }, amounts.whole, below.whole, share.whole, used.whole),
    element("div", { class: "column second" }, jobs.map((each) => each.whole), trial.whole),
  );
}

export async function load({ names: [name] }) {
  try {
    const kept = week && now() - week.at <= KEPT_SECONDS;
    const [queue, shares, usage, ...jobs] = await Promise.all([
      get(`queues/${encodeURIComponent(name)}`),
      get("fairness", { queue: name }),
      kept ? week.usage : ofQueue(name, "7d"),
      ...parts.jobs.map(({ state }) => get("jobs", { state, queue: name, limit: JOBS })),
    ]);
    if (!kept) week = { at: now(), usage };
    return { queue, shares, jobs, usage };
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return { problem: error.message };
    throw error;
  }
}

export function show(root, found, { about, names: [name] }) {
  const all = [parts.amounts, parts.below, parts.share, parts.used, parts.trial, ...parts.jobs];
  for (const part of all) part.whole.hidden = Boolean(found.problem);
  meet([name]);
  fillWith(parts.facts, found.problem ?? found.queue, () =>
    found.problem ? [element("h1", {}, name), element("p", { class: "empty" }, found.problem)] : facts(found.queue),
  );
  if (found.problem) return;
  const { queue, shares, jobs } = found;
  amounts(parts.amounts.body, queue);
  parts.trial.whole.hidden = !about.visitor.queues || about.visitor.namespaces !== null;
  fillWith(byId("trial-resource"), queue.names, () => queue.names.map((each) => element("option", {}, each)));
  parts.below.whole.hidden = !queue.below.length;
  queueList(parts.below.body, queue.below, queue.names[0]);
  parts.share.whole.hidden = !shares.queues.length;
  chart.show(parts.share.body, { ...shares, count: shares.queues.length }, now());
  const resource = about.resources[0]?.name ?? "cpu";
  parts.used.whole.hidden = !found.usage?.series.length;
  if (found.usage) area.show(parts.used.body, { usage: found.usage, resource });
  parts.jobs.forEach((part, at) => {
    const { count, jobs: listed } = jobs[at];
    part.whole.hidden = !count;
    jobList(part.body, listed, part.state, about.resources[0]?.name);
  });
}

function shareOf({ ratio, share }) {
  if (ratio === null) return "none";
  const resource = largestOf(share);
  return `${ratio.toFixed(2)} of what it deserves${resource ? `, by its ${called(resource)}` : ""}`;
}

function facts(queue) {
  const shown = [
    ["State", queue.state],
    ["Weight", String(queue.weight)],
    ["Share", shareOf(queue)],
    ["Jobs", `${grouped(queue.jobs.running)} run, ${grouped(queue.jobs.waiting)} wait`],
  ];
  const above = queue.above.flatMap((each) => [" / ", link(toQueue(each), each)]);
  return [
    element("p", { class: "crumbs" }, link("#/queues", "Queues"), ...above),
    element("h1", {}, element("span", { class: `swatch ${kindOf(queue.name)}`, "aria-hidden": "true" }), queue.name),
    definitions(shown),
    ...(queue.sentence ? [element("p", { class: "message" }, queue.sentence)] : []),
  ];
}

function amounts(body, queue) {
  let whole = body.querySelector("table");
  if (!whole) {
    whole = table("Resources", [
      ["Resource", ""], [element("span", { class: "hidden" }, "Bar"), ""], ["Has", "number"], ["Deserves", "number"], ["Wants", "number"],
    ]).whole;
    body.replaceChildren(whole);
  }
  const items = queue.names.filter((name) => queue.resources[name]).map((name) => ({ name, figure: queue.resources[name], kind: kindOf(queue.name) }));
  reconcile(whole.querySelector("tbody"), items, (item) => item.name, ({ name, figure, kind }) => {
    const most = Math.max(figure.has.value, figure.wants.value, figure.deserves?.value ?? 0) || 1;
    const borrowed = figure.borrowed?.value > 0 ? [element("span", { class: "sub over" }, `${grouped(figure.borrowed.text)} borrowed`)] : [];
    const reserved = figure.reserved ? [element("span", { class: "sub" }, `${grouped(figure.reserved.text)} reserved`)] : [];
    return row(
      {},
      cell({ class: "queue name" }, name),
      cell({ class: "bar-cell" }, bar(figure, most * 1.04, kind)),
      cell({ class: "number", "data-title": "has" }, grouped(figure.has.text), borrowed, reserved),
      cell({ class: "number", "data-title": "deserves" }, grouped(figure.deserves?.text ?? "–")),
      cell({ class: "number", "data-title": "wants" }, grouped(figure.wants.text)),
    );
  });
}

const SETTINGS = ["weight", "capability", "deserved", "guarantee", "reclaimable", "priority"];
const AMOUNTS = ["capability", "deserved", "guarantee"];
const TRIAL_MS = 150000;

// What another setting would do, found out by simulation: nothing is changed.
function form(name) {
  const setting = element("select", { id: "trial-setting", change: () => fit() }, SETTINGS.map((each) => element("option", {}, each)));
  const resource = element("select", { id: "trial-resource", "aria-label": "Resource" });
  const value = element("input", { id: "trial-value", "aria-label": "Value", required: true, autocomplete: "off", spellcheck: "false" });
  const button = element("button", { type: "submit", class: "primary" }, "What would happen?");
  const said = element("div", { role: "status" });
  const fit = () => {
    resource.hidden = !AMOUNTS.includes(setting.value);
    value.placeholder = { weight: "2", priority: "10", reclaimable: "true or false" }[setting.value] ?? "amount, such as 16";
  };
  const submit = async (event) => {
    event.preventDefault();
    const text = value.value.trim();
    const given = AMOUNTS.includes(setting.value) ? `${resource.value}=${text}` : text;
    button.disabled = true;
    said.replaceChildren(element("p", {}, "The scheduler tries it…"));
    try {
      const found = await get(`queues/${encodeURIComponent(name)}/what-if`, { [setting.value]: given }, TRIAL_MS);
      said.replaceChildren(...answer(found));
    } catch (error) {
      said.replaceChildren(element("p", { class: "problem" }, error.message));
    }
    button.disabled = false;
  };
  fit();
  return element(
    "form",
    { class: "text trial-form", submit },
    element("p", { class: "fields" }, element("label", { for: "trial-setting" }, "Setting"), setting, resource, value, button),
    said,
    element("p", { class: "sub" }, "Cycles are simulated with and without the setting. Nothing is changed."),
  );
}

function answer(found) {
  const made = [element("p", { class: "headline" }, found.changes.join(", ") || "The queue has this setting already.")];
  if (found.deserved.length) {
    const lines = found.deserved.map((each) => `${each.queue} would deserve ${each.after} instead of ${each.before} ${each.resource}`);
    made.push(element("ul", { class: "remedies" }, lines.map((each) => element("li", {}, each))));
  }
  made.push(...losses(found.evicted, "would be evicted"), ...losses(found.spared, "would no longer be evicted"));
  made.push(...jobs(found.starts, "would start"), ...jobs(found.stops, "would wait in the end"));
  if (made.length === 1) made.push(element("p", {}, "Nothing would change."));
  if (!found.settled) made.push(element("p", { class: "sub" }, "More would happen after the cycles that were simulated."));
  return made;
}

const toNamed = (key) => {
  const [namespace, podGroup] = key.split("/");
  return link(toJob({ namespace, podGroup }), key);
};

function losses(found, verb) {
  if (!found.length) return [];
  const pods = found.reduce((sum, each) => sum + each.pods, 0);
  const lines = found.slice(0, 20).map((each) =>
    element("li", {}, `${count(each.pods, "pod")} of `, toNamed(each.job), each.for ? [", for ", toNamed(each.for)] : []),
  );
  return [element("p", {}, `${count(pods, "pod")} ${verb}:`), element("ul", { class: "remedies" }, lines)];
}

function jobs(found, verb) {
  if (!found.length) return [];
  const lines = found.slice(0, 20).map((each) => element("li", {}, toNamed(each)));
  return [element("p", {}, `${count(found.length, "job")} ${verb}:`), element("ul", { class: "remedies" }, lines)];
}
