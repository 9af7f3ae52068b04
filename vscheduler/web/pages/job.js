// One job: why it waits and what would start it, its pods and nodes, and what was decided about it.

import { cell, command as commandOf, definitions, element, empty, fillWith, link, panel, reconcile, row, table } from "./dom.js";
import { Refused, get } from "./api.js";
import { ageSince, clock, count, grouped, moment, words } from "./format.js";
import { list as decisionList } from "./decisions.js";
import { toNode, toQueue } from "./route.js";
import { ofJob } from "./usage.js";
import { countsWhatFits, startOf, whyOf } from "./jobs.js";

const REMEDIES_MS = 150000;
export const needs = ["jobs", "decisions"];
export const heads = true; // its heading is the name
export const title = ([namespace, name]) => `${name} in ${namespace}`;
export const part = (found) => (found?.past ? "history" : "jobs");

let parts = null;
let remedies = null;

const path = (names) => `jobs/${names.map(encodeURIComponent).join("/")}`;

export function enter(root, { names }) {
  remedies = null;
  const facts = element("section", { class: "panel about" });
  const why = panel("why", "Why it waits");
  const help = panel("help", "What would help");
  const pods = panel("pods", "Pods");
  const log = panel("decisions", "Latest decisions");
  parts = { facts, why, help, pods, log, names };
  const first = element("div", { class: "column first" }, why.whole, help.whole);
  const second = element("div", { class: "column second" }, log.whole);
  parts.columns = [first, second];
  root.append(facts, first, second);
}

export async function load({ names }) {
  try {
    return await get(path(names));
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return { problem: error.message, past: await ofJob(names) };
    throw error;
  }
}

export function show(root, job, { names }) {
  const waits = Boolean(job.waitingSince);
  for (const part of [parts.why, parts.help]) part.whole.hidden = !waits;
  for (const part of [parts.pods, parts.log]) part.whole.hidden = Boolean(job.problem);
  standBeside(parts.pods.whole, waits);
  fillWith(parts.facts, job, () => (job.problem ? gone(names, job) : facts(job)));
  if (job.problem) return;
  fillWith(parts.why.body, [job.message, job.place, job.startsBy], () => why(job));
  help(job);
  pods(parts.pods.body, job);
  decisionList(parts.log.body, job.history, "Nothing was decided about it lately.");
}

// Pods stand beside the reason why the job waits, and first where there is none.
function standBeside(pods, waits) {
  const [first, second] = parts.columns;
  const place = waits ? second : first;
  if (pods.parentNode !== place) place.prepend(pods);
}

function gone([namespace, name], { problem, past }) {
  if (!past) return [element("h1", {}, `${namespace}/${name}`), element("p", { class: "empty" }, problem)];
  const { state } = past;
  const evictions = past.evictions.map((each) => `${each.pods} at ${moment(each.time)}${each.for ? ` for ${each.for}` : ""}`);
  const shown = [
    ["Queue", link(toQueue(past.queue), past.queue)],
    ["Namespace", past.namespace],
    ["PodGroup", past.podGroup],
    ["Pods", grouped(past.pods)],
    ...(past.user ? [["User", past.user]] : []),
    ...[["Created", past.created], ["Started", past.started], ["Finished", past.finished]]
      .filter(([, time]) => time)
      .map(([text, time]) => [text, moment(time)]),
    ...(evictions.length ? [["Pods evicted", evictions.join("; ")]] : []),
  ];
  return [
    element("p", { class: "crumbs" }, link("#/history", "History"), " / ", past.namespace),
    element("h1", {}, past.workload || name, " ", element("span", { class: `mark state-${state.toLowerCase()}` }, state)),
    definitions(shown),
    element("p", { class: "empty" }, "The job is gone, or its objects haven't been seen yet: this is what the history has."),
  ];
}

function facts(job) {
  const waits = Boolean(job.waitingSince);
  const state = waits ? "Waiting" : job.state;
  const amounts = Object.entries(job.amounts).map(([name, each]) => `${grouped(each.text)} ${name}`);
  const since = waits ? job.waitingSince : job.created;
  const shown = [
    ["Queue", link(toQueue(job.queue), job.queue)],
    ["Namespace", job.namespace],
    ["PodGroup", job.podGroup],
    ["Pods", `${grouped(job.pods.running)} of ${grouped(job.pods.total)} run; ${grouped(job.pods.minimum)} must start together`],
    [waits ? "Asks for" : job.pods.running < job.pods.total ? "Has and asks for" : "Has", amounts.join(", ") || "nothing"],
    [waits ? "Waiting" : "Age", element("span", { "data-since": since, title: moment(since) }, ageSince(since))],
    ...(job.domain ? [["In the network", job.domain]] : []),
  ];
  return [
    element("p", { class: "crumbs" }, link("#/jobs", "Jobs"), " / ", job.namespace),
    element(
      "h1",
      {},
      job.workload,
      " ",
      element("span", { class: `mark state-${waits ? "waiting" : job.state.toLowerCase()}` }, state),
    ),
    definitions(shown),
  ];
}

function why(job) {
  const made = [];
  if (job.reason) made.push(element("p", { class: "headline" }, words(job.reason)));
  made.push(element("p", { class: "message" }, job.message ?? whyOf(job)));
  if (countsWhatFits(job)) {
    made.push(element("p", { class: "sub" }, "What fits was counted at its turn in the last cycle; jobs behind it may have started in that room."));
  }
  if (job.place) made.push(element("p", {}, `Place in line: ${job.place.sentence}.`));
  if (job.startsBy) made.push(element("p", {}, startOf(job)));
  return [element("div", { class: "text" }, made)];
}

// What would start a job takes the scheduler some seconds, so it is asked for by a button.
function help(job) {
  const command = `vscheduler job why ${job.workload} -n ${job.namespace}`;
  const again = () => help(job);
  const mine = parts.names.join("/");
  const ask = async () => {
    remedies = { busy: true };
    again();
    let answer;
    try {
      answer = { found: await get(`${path(parts.names)}/remedies`, {}, REMEDIES_MS), at: new Date().toISOString() };
    } catch (error) {
      answer = { problem: error.message };
    }
    if (mine !== parts.names.join("/")) return; // another job is shown by now
    remedies = answer;
    again();
  };
  fillWith(parts.help.body, [remedies, command], () => {
    const text = remedies?.found || remedies?.problem ? "Ask again" : "Find out what would start it";
    const button = element(
      "button",
      { type: "button", class: "primary", "data-part": "remedies", disabled: remedies?.busy ?? null, click: ask },
      remedies?.busy ? "The scheduler tries changes…" : text,
    );
    return [
      element(
        "div",
        { class: "text" },
        element("div", { role: "status" }, remedies ? saidOf(remedies) : []),
        element("p", {}, button),
        element("div", { class: "command" }, commandOf(command), copy(command)),
      ),
    ];
  });
}

function saidOf({ found, at, problem }) {
  if (problem) return [element("p", { class: "problem" }, problem)];
  if (!found) return [];
  const made = [];
  const then = found.forAdmission ? "; its owner creates its pods then" : "";
  const does = found.forAdmission ? `have it admitted${then}` : "start it";
  if (found.startsInCycle) {
    const first = found.startsInCycle === 1;
    const [begins, begin] = found.forAdmission ? ["is admitted", "be admitted"] : ["starts", "start"];
    const start = first ? `${begins} in cycle 1 if nothing changes` : `can ${begin} in cycle ${found.startsInCycle} at the earliest`;
    made.push(element("p", {}, `It ${start}${then}.`));
  } else {
    if (found.likelyStart) made.push(element("p", {}, found.likelyStart));
    if (found.reclaim) made.push(element("p", {}, found.reclaim));
    if (found.domains.length) {
      made.push(element("p", {}, "The domains with most room:"));
      made.push(element("ul", { class: "remedies" }, found.domains.map((each) => element("li", {}, each))));
    }
    const lines = found.remedies.map((each) => element("li", {}, each.message));
    made.push(
      element("p", {}, lines.length ? `Any one of these changes would ${does}:` : `No single change that was tried would ${does}.`),
    );
    if (lines.length) made.push(element("ul", { class: "remedies" }, lines));
    else if (found.notEnough) made.push(element("p", {}, `It isn't enough to ${found.notEnough}.`));
  }
  const rest = [];
  if (found.hidden) rest.push(`${found.hidden} more would, which concern what you may not see.`);
  if (found.cutShort.length) rest.push(`Not searched to the end: ${found.cutShort.join(", ")}.`);
  for (const said of found.untried) {
    rest.push(`Not tried: what would let nodes pass a filter of your own ("${said}").`);
  }
  made.push(element("p", { class: "sub" }, `As of ${clock(at)}. ${rest.join(" ")}`));
  return made;
}

function copy(text) {
  const said = element("span", { role: "status", class: "sub" });
  const press = async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = "Copied.";
    } catch {
      said.textContent = "This browser doesn't allow it: copy the text by hand.";
    }
  };
  return element("span", {}, element("button", { type: "button", "data-part": "copy", click: press }, "Copy"), said);
}

function pods(body, job) {
  if (!job.members) {
    const { pods: number, count: nodes } = job.nodes;
    const where = number ? `${count(number, "pod")} on ${count(nodes, "node")}. ` : "";
    body.replaceChildren(empty(`${where}You may not list pods.`));
    return;
  }
  if (!job.members.length) {
    body.replaceChildren(empty("It has no pods."));
    return;
  }
  let whole = body.querySelector("table");
  if (!whole) {
    whole = table("Pods", [["Pod", ""], ["State", ""], ["Node", ""]]).whole;
    body.replaceChildren(element("div", { class: "tall", tabindex: 0, role: "group", "aria-label": "Pods" }, whole));
  }
  reconcile(whole.querySelector("tbody"), job.members, (pod) => pod.name, (pod) =>
    row(
      {},
      cell({ class: "name" }, pod.name),
      cell({ "data-title": "state" }, pod.status),
      cell({ "data-title": "node" }, pod.node ? link(toNode(pod.node), pod.node) : "–"),
    ),
  );
}
