// The page: signs in, listens for news, and shows the view that the address names.

import { Refused, get, signIn, signOut, stream } from "./api.js";
import { byId, element, empty, hatch } from "./dom.js";
import { accountOf, clock, keepAges, setClock } from "./format.js";
import * as colors from "./colors.js";
import * as decisions from "./decisions.js";
import * as history_ from "./usage.js";
import * as job from "./job.js";
import * as jobs from "./jobs.js";
import * as nodes from "./nodes.js";
import * as overview from "./overview.js";
import * as queue from "./queue.js";
import * as queues from "./queues.js";
import * as route from "./route.js";

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30000;
const SIGN_IN = "sign-in=";
const VIEWS = { overview, jobs, job, queues, queue, nodes, history: history_, decisions };

let source = null;
let pause = FIRST_PAUSE;
let retry = 0;
let versions = {};
let shown = null;
let seenAt = "";
let busy = false;
let again = false;

function show(which) {
  for (const id of ["loading", "sign-in", "page"]) byId(id).hidden = id !== which;
  for (const id of ["visitor", "views"]) byId(id).hidden = which !== "page";
}

function connection(state, words) {
  const line = byId("connection");
  if (line.dataset.state === state && line.textContent === words) return;
  line.dataset.state = state;
  line.textContent = words;
  document.body.classList.toggle("stale", state === "lost");
}

async function summary() {
  const found = await get("summary");
  seenAt = found.time;
  setClock(found.time);
  byId("instance").textContent = found.instance.leads ? found.instance.sentence : "";
  byId("visitor-name").textContent = accountOf(found.visitor.name);
  byId("visitor-name").title = found.visitor.name;
  const notice = byId("notice");
  notice.hidden = found.instance.leads;
  notice.textContent = found.instance.leads ? "" : found.instance.sentence;
  byId("notes").replaceChildren(...found.visitor.notes.map((each) => element("li", {}, each)));
  return found;
}

// Makes room for the view that the address names, and marks its link.
function enter() {
  const { view, names } = route.current();
  const made = VIEWS[view] ?? null;
  const key = [view, ...names].join("/");
  if (shown?.key === key) return;
  const root = element("div", { class: `view view-${view}` });
  byId("view").replaceChildren(root);
  if (!made?.heads) root.append(element("h1", { class: "hidden" }, made ? made.title(names) : "No such view"));
  shown = { key, view: made, root };
  mark(made?.part?.(null) ?? view);
  document.title = [...(made ? [made.title(names)] : []), "vscheduler"].join(" - ");
  if (!made) root.append(element("section", { class: "panel" }, empty("There is no such view.")));
  else made.enter?.(root, { names, query: route.current().query, reload: load });
}

// Marks the link to a view, or to the one that it is a part of.
function mark(name) {
  for (const link of byId("views").querySelectorAll("a")) {
    const mine = link.getAttribute("href").slice(2) || "overview";
    if (mine === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

// Loads the view. What is asked for meanwhile is loaded next.
async function load() {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  try {
    enter();
    const about = await summary();
    versions = { ...versions, ...about.versions }; // the view is at least as new
    if (shown) await fillView(about); // otherwise the address has changed, and is loaded next
    if (byId("sign-in").hidden) show("page");
  } catch (error) {
    failed(error);
  } finally {
    busy = false;
    if (again) {
      again = false;
      load();
    }
  }
}

async function fillView(about) {
  const { root, view } = shown;
  const { names, query } = route.current();
  const found = view ? await view.load({ names, query }) : null;
  if (!view || shown?.root !== root) return;
  view.show(root, found, { about, names, query, reload: load });
  if (view.part) mark(view.part(found));
}

function take(fresh) {
  const before = { access: fresh.access, ...versions };
  versions = fresh;
  const needs = ["access", "instance", ...(shown?.view?.needs ?? [])];
  if (needs.some((name) => fresh[name] !== before[name])) load();
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
  if (!(error instanceof Refused)) throw error;
  if (error.status === 401) askToSignIn(error.message);
  else lost(error.message);
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
  shown = null;
  colors.forget();
  connection("", "");
  byId("instance").textContent = "";
  byId("sign-in-problem").textContent = message;
  for (const id of ["view", "notes"]) byId(id).replaceChildren();
  show("sign-in");
  byId("token").focus();
}

async function start() {
  versions = {};
  await load();
  if (!byId("page").hidden) listen();
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

byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names a view
  byId("content").focus();
});

window.addEventListener("hashchange", () => {
  if (!location.hash.startsWith("#/") || byId("page").hidden) return;
  const before = shown?.key;
  shown = null; // fields show what the new address says
  load().then(() => {
    if (shown?.key === before) return;
    window.scrollTo(0, 0);
    byId("content").focus({ preventScroll: true });
  });
});

// A browser keeps pages that were left for a while, with their connections, of which it has six for
// a host: without this, the seventh visit would wait for them.
window.addEventListener("pagehide", () => {
  source?.close();
  source = null;
  clearTimeout(retry);
});
window.addEventListener("pageshow", (event) => {
  if (event.persisted && !byId("page").hidden) start();
});

document.body.append(hatch());
keepAges();
await useCode();
start();
