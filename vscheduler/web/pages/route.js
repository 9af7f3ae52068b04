// Addresses of views: what follows # is a path with parameters, such as #/job/vision/train or
// #/jobs?state=running.

export function current() {
  const text = location.hash.startsWith("#/") ? location.hash.slice(2) : "";
  const [path, query = ""] = text.split("?", 2);
  const [view, ...names] = path.split("/").map(decode);
  return { view: view || "overview", names, query: Object.fromEntries(new URLSearchParams(query)) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function address(view, names = [], query = {}) {
  const path = [view, ...names].filter(Boolean).map(encodeURIComponent).join("/");
  const given = Object.entries(query).filter(([, value]) => value);
  return `#/${path}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

export const toJob = (job) => address("job", [job.namespace, job.podGroup]);
export const toQueue = (name) => address("queue", [name]);
export const toNode = (name) => address("nodes", [], { node: name });

// Changes parameters without a new entry in the history of the browser.
export function change(more) {
  const { view, names, query } = current();
  history.replaceState(null, "", address(view, names, { ...query, ...more }));
}
