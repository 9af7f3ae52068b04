// The page: signs in, listens for news, and shows the sections that have changed.

import { get, Refused, signIn, signOut, stream } from "./api.js";
import { byId, element } from "./dom.js";
import { clock, keepAges, setClock } from "./format.js";
import * as chart from "./chart.js";
import * as decisions from "./decisions.js";
import * as jobs from "./jobs.js";
import * as queues from "./queues.js";

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30000;
const SIGN_IN = "sign-in=";

let source = null;
let pause = FIRST_PAUSE;
let retry = 0;
let versions = {};
let busy = false;
let again = false;
let seenAt = "";

const sections = {
  async jobs() {
    const found = await get("jobs", jobs.parameters());
    await jobs.refreshDetails();
    jobs.show(found, () => refresh("jobs"));
  },
  async queues() {
    const wiring = { onQueue: showQueue, reload: () => refresh("queues") };
    queues.show(await get("queues", queues.parameters()), wiring);
  },
  async decisions() {
    decisions.show(await get("decisions", { limit: 30 }));
  },
  async fairness() {
    chart.show(await get("fairness"), Date.parse(seenAt) / 1000);
  },
};

function showQueue(name) {
  jobs.setFilter({ queue: name }, () => refresh("jobs"));
  byId("jobs").scrollIntoView();
}

function show(which) {
  for (const id of ["loading", "sign-in", "page"]) byId(id).hidden = id !== which;
  byId("visitor").hidden = which !== "page";
}

function connection(state, words) {
  const shown = byId("connection");
  if (shown.dataset.state === state && shown.textContent === words) return;
  shown.dataset.state = state;
  shown.textContent = words;
  document.body.classList.toggle("stale", state === "lost");
}

async function summary() {
  const found = await get("summary");
  seenAt = found.time;
  setClock(found.time);
  byId("instance").textContent = found.instance.sentence;
  byId("visitor-name").textContent = found.visitor.name;
  byId("visitor-name").title = found.visitor.name;
  const { notice } = { notice: byId("notice") };
  notice.hidden = found.instance.leads;
  notice.textContent = found.instance.leads ? "" : found.instance.sentence;
  byId("notes").replaceChildren(...found.visitor.notes.map((each) => element("li", {}, each)));
  figures(found);
}

function figures(found) {
  const made = [
    ["jobs wait", String(found.jobs.waiting)],
    ["jobs run", String(found.jobs.running)],
  ];
  const total = Object.entries(found.total).filter(([, each]) => each.value > 0);
  for (const [name, each] of total.slice(0, 4)) made.push([`${name} shared among queues`, each.text]);
  byId("figures").replaceChildren(
    ...made.map(([title, text]) => element("div", {}, element("dt", {}, title), element("dd", {}, text))),
  );
}

// Loads sections one refresh after the other; what changes meanwhile is loaded next.
async function refresh(...names) {
  try {
    await summary();
    await Promise.all(names.map((name) => sections[name]()));
  } catch (error) {
    failed(error);
  }
}

async function take(fresh) {
  if (busy) {
    again = fresh;
    return;
  }
  busy = true;
  const all = fresh.access !== versions.access || fresh.instance !== versions.instance;
  const names = Object.keys(sections).filter((name) => all || fresh[name] !== versions[name]);
  versions = fresh;
  await refresh(...names);
  show(byId("sign-in").hidden ? "page" : "sign-in");
  busy = false;
  if (again) {
    const next = again;
    again = false;
    take(next);
  }
}

function listen() {
  source?.close();
  source = stream();
  source.addEventListener("open", () => {
    pause = FIRST_PAUSE;
    connection("live", "Live");
  });
  source.addEventListener("versions", (event) => take(JSON.parse(event.data)));
  source.addEventListener("end", (event) => askToSignIn(JSON.parse(event.data).message));
  source.addEventListener("pause", (event) => lost(JSON.parse(event.data).message));
  source.addEventListener("error", () => lost("The connection is lost."));
}

function failed(error) {
  if (error instanceof Refused && error.status === 401) askToSignIn("");
  else if (error instanceof Refused) lost(error.message);
  else throw error;
}

function lost(message) {
  source?.close();
  source = null;
  clearTimeout(retry);
  const seconds = Math.round(pause / 1000);
  const since = seenAt ? ` You see how it was at ${clock(seenAt)}.` : "";
  connection("lost", `${message} Trying again in ${seconds} s.${since}`);
  retry = setTimeout(start, pause * (0.8 + 0.4 * Math.random()));
  pause = Math.min(2 * pause, LONGEST_PAUSE);
}

function askToSignIn(message) {
  source?.close();
  source = null;
  clearTimeout(retry);
  versions = {};
  connection("", "");
  byId("instance").textContent = "";
  byId("sign-in-problem").textContent = message;
  for (const id of ["jobs-body", "queues-body", "fairness-body", "decisions-body", "figures", "notes"]) {
    byId(id).replaceChildren();
  }
  show("sign-in");
  byId("token").focus();
}

async function start() {
  try {
    await summary();
  } catch (error) {
    failed(error);
    return;
  }
  versions = {};
  listen();
}

async function useCode() {
  const given = location.hash.slice(1);
  if (!given.startsWith(SIGN_IN)) return;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    await signIn({ code: given.slice(SIGN_IN.length) });
  } catch {
    // an earlier session may still be there
  }
}

byId("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const problem = byId("sign-in-problem");
  const namespaces = byId("namespaces").value.split(",").map((each) => each.trim()).filter(Boolean);
  problem.textContent = "";
  try {
    await signIn({ token: byId("token").value.trim(), namespaces });
  } catch (error) {
    problem.textContent = error.message;
    return;
  }
  byId("token").value = "";
  show("loading");
  byId("content").focus();
  start();
});

byId("sign-out").addEventListener("click", async () => {
  try {
    await signOut();
    askToSignIn("You are signed out.");
  } catch (error) {
    failed(error);
  }
});

document.body.append(queues.hatch());
jobs.wire(() => refresh("jobs"));
keepAges();
await useCode();
start();
