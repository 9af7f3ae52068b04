// Jobs: those that wait, in the order of their turns, with their reasons; and those that run.

import { byId, cell, element, empty, pager, reconcile, row, table } from "./dom.js";
import { ageSince, clock } from "./format.js";
import { get } from "./api.js";

const PAGE = 50;
const filter = { state: "waiting", search: "", queue: "", namespace: "", offset: 0 };
const REMEDIES_MS = 150000;
const open = new Map();
const remedies = new Map();
let list = null;
let listed = "";

export const parameters = () => ({ ...filter, limit: PAGE });

export function setFilter(changes, reload) {
  Object.assign(filter, { offset: 0 }, changes);
  byId("search").value = filter.search;
  byId("filter-queue").value = filter.queue;
  byId("filter-namespace").value = filter.namespace;
  const query = new URLSearchParams(
    Object.entries(filter).filter(([name, value]) => value && name !== "offset" && value !== "waiting"),
  ).toString();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
  reload();
}

export function wire(reload) {
  const given = new URLSearchParams(location.search);
  for (const name of ["state", "search", "queue", "namespace"]) {
    if (given.has(name)) filter[name] = given.get(name);
  }
  if (filter.state !== "running") filter.state = "waiting";
  for (const each of byId("states").querySelectorAll("input")) {
    each.checked = each.value === filter.state;
    each.addEventListener("change", () => setFilter({ state: each.value }, reload));
  }
  const fields = { search: "search", "filter-queue": "queue", "filter-namespace": "namespace" };
  for (const [id, name] of Object.entries(fields)) {
    let timer = 0;
    byId(id).value = filter[name];
    byId(id).addEventListener("input", (event) => {
      clearTimeout(timer);
      const value = event.target.value.trim();
      timer = setTimeout(() => setFilter({ [name]: value }, reload), 250);
    });
  }
}

export function show(found, reload) {
  const body = byId("jobs-body");
  if (!found.count) {
    list = null;
    body.replaceChildren(empty(nothing()));
    return;
  }
  if (filter.offset >= found.count) {
    filter.offset = 0;
    reload();
    return;
  }
  const waits = filter.state === "waiting";
  if (!list?.whole.isConnected || listed !== filter.state) {
    listed = filter.state;
    list = waits
      ? table("Waiting jobs, in the order of their turns", [
          ["Job", ""], ["Place", "number"], ["Pods", "number"], ["Waiting", "number"], ["Why", ""],
        ])
      : table("Running jobs", [
          ["Job", ""], ["Pods", "number"], ["Age", "number"], ["On nodes", ""],
        ]);
    body.replaceChildren(list.whole);
  }
  const items = found.jobs.flatMap((job) => {
    const key = keyOf(job);
    return open.has(key) ? [{ job, open: true }, { job, details: open.get(key), remedies: remedies.get(key) }] : [{ job }];
  });
  reconcile(
    list.body,
    items,
    (item) => keyOf(item.job) + (item.details ? " details" : ""),
    (item) => (item.details ? detailsOf(item, () => show(found, reload)) : rowOf(item, waits, () => show(found, reload))),
  );
  pager(body, found.offset, found.jobs.length, found.count, (way) => {
    filter.offset = Math.max(0, filter.offset + way * PAGE);
    reload();
  });
}

// Details of jobs that are open follow the cluster, too.
export async function refreshDetails() {
  await Promise.all([...open.keys()].map(load));
}

async function load(key) {
  try {
    open.set(key, await get(`jobs/${key.split("/").map(encodeURIComponent).join("/")}`));
  } catch (error) {
    open.set(key, { problem: error.message });
  }
}

const keyOf = (job) => `${job.namespace}/${job.podGroup}`;

function nothing() {
  const filtered = filter.search || filter.queue || filter.namespace;
  if (filtered) return "No job matches.";
  return filter.state === "waiting" ? "No job that you may see waits." : "No job that you may see runs.";
}

function rowOf({ job, open: isOpen }, waits, again) {
  const key = keyOf(job);
  const button = element(
    "button",
    {
      type: "button",
      class: "plain more",
      "data-part": "more",
      "aria-expanded": String(Boolean(isOpen)),
      click: async () => {
        if (open.has(key)) open.delete(key);
        else await load(key);
        again();
      },
    },
    element("span", {}, job.workload),
  );
  const name = cell(
    { class: "job" },
    button,
    element("span", { class: "sub" }, `${job.namespace}, queue ${job.queue}`),
  );
  const pods = cell(
    { class: "number", "data-title": "pods", title: "running / minimum / all" },
    `${job.pods.running}/${job.pods.minimum}/${job.pods.total}`,
  );
  if (!waits) {
    const since = element("span", { "data-since": job.created }, ageSince(job.created));
    return row({}, name, pods, cell({ class: "number", "data-title": "age" }, since), nodesOf(job));
  }
  const place = job.place
    ? [String(job.place.overall), element("span", { class: "sub" }, `${job.place.inQueue} of ${job.place.ofQueue}`)]
    : ["–"];
  const since = element("span", { "data-since": job.waitingSince }, ageSince(job.waitingSince));
  return row(
    {},
    name,
    cell({ class: "number", "data-title": "place", title: job.place?.sentence ?? null }, ...place),
    pods,
    cell({ class: "number", "data-title": "waiting" }, since),
    cell({ class: "reason" }, job.short ?? "The scheduler hasn't said anything about it yet."),
  );
}

function nodesOf(job) {
  const { nodes } = job;
  if (!nodes.named) {
    const words = nodes.count === 1 ? "node" : "nodes";
    return cell({ class: "node-list" }, `${nodes.count} ${words}`);
  }
  const chips = nodes.named.map((each) =>
    element("li", {}, each.pods === 1 ? each.name : `${each.name} ×${each.pods}`),
  );
  if (nodes.count > chips.length) chips.push(element("li", {}, `and ${nodes.count - chips.length} more`));
  return cell({ class: "node-list" }, element("ul", { class: "chips" }, chips));
}

function detailsOf({ job, details }, again) {
  const columns = filter.state === "waiting" ? 5 : 4;
  const inside = details.problem
    ? [element("p", { class: "problem" }, details.problem)]
    : [...reasonOf(job, details, again), ...membersOf(details), ...historyOf(details)];
  return row({ class: "details" }, cell({ colspan: columns }, ...inside));
}

function reasonOf(job, details, again) {
  const made = [];
  if (details.message) made.push(element("p", { class: "message" }, details.message));
  if (details.place) made.push(element("p", {}, `Place in line: ${details.place.sentence}.`));
  if (details.domain) made.push(element("p", {}, `In the network: ${details.domain}.`));
  if (details.waitingSince) {
    const words = `vscheduler job why ${job.workload} -n ${job.namespace}`;
    made.push(
      element(
        "div",
        { class: "block" },
        element("h3", {}, "What would help"),
        ...remediesOf(keyOf(job), again),
        element("div", { class: "command" }, element("code", {}, words), copy(words)),
      ),
    );
  }
  return made;
}

// What would start a job takes the scheduler some seconds, so it is asked for by a button.
function remediesOf(key, again) {
  const known = remedies.get(key);
  const ask = async () => {
    remedies.set(key, { busy: true });
    again();
    try {
      const path = `jobs/${key.split("/").map(encodeURIComponent).join("/")}/remedies`;
      remedies.set(key, { found: await get(path, {}, REMEDIES_MS), at: new Date().toISOString() });
    } catch (error) {
      remedies.set(key, { problem: error.message });
    }
    again();
  };
  const words = known?.found || known?.problem ? "Ask again" : "Find out what would start it";
  const button = element(
    "button",
    { type: "button", "data-part": "remedies", disabled: known?.busy ?? null, click: ask },
    known?.busy ? "The scheduler tries changes…" : words,
  );
  return [...(known ? [element("div", { role: "status" }, ...saidOf(known))] : []), element("p", {}, button)];
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
    if (found.reclaim) made.push(element("p", {}, found.reclaim));
    if (found.domains.length) {
      made.push(element("p", {}, "The domains with most room:"));
      made.push(element("ul", {}, found.domains.map((each) => element("li", {}, each))));
    }
    const lines = found.remedies.map((each) => element("li", {}, each.message));
    made.push(
      element("p", {}, lines.length ? `Any one of these changes would ${does}:` : `No single change that was tried would ${does}.`),
    );
    if (lines.length) made.push(element("ul", { class: "remedies" }, lines));
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

function copy(words) {
  const said = element("span", { role: "status", class: "sub" });
  const press = async () => {
    try {
      await navigator.clipboard.writeText(words);
      said.textContent = "Copied.";
    } catch {
      said.textContent = "This browser doesn't allow it: copy the text by hand.";
    }
  };
  return element("span", {}, element("button", { type: "button", click: press }, "Copy"), said);
}

function membersOf(details) {
  if (!details.members) {
    const { pods, count } = details.nodes;
    return pods ? [element("p", {}, `${pods} pods on ${count} nodes.`)] : [];
  }
  const members = details.members.map((pod) =>
    element("li", {}, pod.node ? `${pod.name} on ${pod.node}, ${pod.status}` : `${pod.name}, ${pod.status}`),
  );
  if (!members.length) return [];
  return [
    element(
      "div",
      { class: "block" },
      element("h3", {}, `Pods of ${details.podGroup}`),
      element("ul", { class: "members", tabindex: 0, "aria-label": `Pods of ${details.podGroup}` }, members),
    ),
  ];
}

function historyOf(details) {
  if (!details.history.length) return [];
  const lines = details.history.map((each) =>
    element("li", {}, element("time", { datetime: each.time }, clock(each.time)), element("span", {}, each.what)),
  );
  return [
    element("div", { class: "block" }, element("h3", {}, "Recent decisions"), element("ol", { class: "history" }, lines)),
  ];
}

