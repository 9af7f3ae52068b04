// Recent decisions: what was bound, evicted for whom, and refused.

import { byId, element, empty, reconcile } from "./dom.js";
import { clock } from "./format.js";

let list = null;

export function show(found) {
  const body = byId("decisions-body");
  if (!found.decisions.length) {
    list = null;
    body.replaceChildren(empty("Nothing was decided lately about jobs that you may see."));
    return;
  }
  if (!list?.isConnected) {
    list = element("ol", { class: "log" });
    body.replaceChildren(list);
  }
  const seen = new Map();
  const items = found.decisions.map((each) => {
    const base = `${each.time} ${each.kind} ${each.namespace}/${each.podGroup}`;
    seen.set(base, (seen.get(base) ?? 0) + 1);
    return { ...each, key: `${base} ${seen.get(base)}` };
  });
  reconcile(list, items, (each) => each.key, line);
}

function line(each) {
  const kind = `mark kind-${each.kind.replaceAll(" ", "-")}`;
  return element(
    "li",
    {},
    element("time", { datetime: each.time }, clock(each.time)),
    element("span", {}, element("span", { class: kind }, each.kind)),
    element(
      "span",
      { class: "what" },
      element("span", { class: "name" }, `${each.namespace}/${each.podGroup}`),
      element("span", { class: "sub" }, each.what),
    ),
  );
}
