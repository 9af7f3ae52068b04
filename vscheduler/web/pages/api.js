// Requests to the scheduler. Errors carry the server's sentence.

const ROOT = "api/v1/";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const USUAL_MS = 15000;

async function ask(path, options = {}, milliseconds = USUAL_MS) {
  let response;
  try {
    response = await fetch(ROOT + path, { ...options, signal: AbortSignal.timeout(milliseconds) });
  } catch {
    throw new Refused(0, "The scheduler doesn't answer.");
  }
  if (response.status === 204) return null;
  let body = null;
  try {
    body = await response.json();
  } catch {
    // an answer that isn't the scheduler's
  }
  if (!response.ok || body === null) {
    throw new Refused(response.status, body?.error?.message ?? `HTTP status ${response.status}`);
  }
  return body;
}

export function get(path, parameters = {}, milliseconds = USUAL_MS) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== 0);
  const query = new URLSearchParams(given).toString();
  return ask(query ? `${path}?${query}` : path, {}, milliseconds);
}

export function signIn(given) {
  const headers = { "Content-Type": "application/json" };
  return ask("session", { method: "POST", headers, body: JSON.stringify(given) });
}

export const signOut = () => ask("session", { method: "DELETE" });

export const stream = () => new EventSource(`${ROOT}stream`);
