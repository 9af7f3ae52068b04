// The past: shares of queues over the last hour.

import { panel } from "./dom.js";
import { get } from "./api.js";
import { now } from "./format.js";
import * as chart from "./chart.js";

export const needs = ["fairness"];
export const title = () => "History";

let parts = null;

export function enter(root) {
  const fairness = panel("fairness", "Fairness over the last hour");
  parts = { fairness };
  root.append(fairness.whole);
}

export const load = () => get("fairness");

export const show = (root, found) => chart.show(parts.fairness.body, found, now());
