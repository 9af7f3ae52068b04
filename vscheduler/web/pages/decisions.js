// Decisions: what was bound, evicted for whom, and refused.

import { choice, element, empty, link, panel, reconcile, searchField } from "./dom.js";
import { get } from "./api.js";
import { moment, unless } from "./format.js";
import { change, toJob } from "./route.js";

const KINDS = ["bound", "evicted", "room made", "refused"];
export const needs = ["decisions"];
export const title = () => "Decisions";

let parts = null;

export function enter(root, { query, reload }) {
  const choose = (more) => {
    change(more);
    reload();
  };
  const kinds = [["", "All"], ...KINDS.map((each) => [each, each[0].toUpperCase() + each.slice(1)])];
  const made = panel("decisions", "Decisions", [
    choice("kind", "Kind", kinds, query.kind ?? "", (kind) => choose({ kind })),
    element("div", { class: "filters" }, searchField("Job or namespace", query.search ?? "", (search) => choose({ search }))),
  ]);
  root.append(made.whole);
  parts = { made };
}

export const load = () => get("decisions", { limit: 200 });

export function show(root, found, { about, query }) {
  const name = (each) => `${each.namespace}/${each.podGroup}`;
  const shown = found.decisions.filter(
    (each) => (!query.kind || each.kind === query.kind) && (!query.search || name(each).includes(query.search)),
  );
  list(parts.made.body, shown, query.kind || query.search ? "No decision matches." : none(about));
}

export const none = (about) =>
  unless(about, `Nothing was decided lately${about.visitor.namespaces === null ? "" : " about jobs that you may see"}.`);

export function list(body, decisions, nothing) {
  if (!decisions.length) {
    body.replaceChildren(empty(nothing));
    return;
  }
  let log = body.firstElementChild;
  if (!log?.matches(".log")) {
    log = element("ol", { class: "log" });
    body.replaceChildren(log);
  }
  const seen = new Map();
  const items = decisions.map((each) => {
    const base = `${each.time} ${each.kind} ${each.namespace}/${each.podGroup}`;
    seen.set(base, (seen.get(base) ?? 0) + 1);
    return { ...each, key: `${base} ${seen.get(base)}` };
  });
  reconcile(log, items, (each) => each.key, line);
}

function line(each) {
  const kind = `mark kind-${each.kind.replaceAll(" ", "-")}`;
  const name = each.podGroup === undefined ? [] : [link(toJob(each), `${each.namespace}/${each.podGroup}`)];
  return element(
    "li",
    {},
    element("time", { datetime: each.time }, moment(each.time)),
    element("span", {}, element("span", { class: kind }, each.kind)),
    element("span", { class: "what" }, ...name, element("span", { class: "sub" }, each.what)),
  );
}
