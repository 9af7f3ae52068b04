// Times as kubectl prints them (apimachinery: duration.HumanDuration), and amounts that the page has
// added up itself; other amounts come as text from the server.

let ahead = 0;

export function setClock(serverTime) {
  ahead = Date.parse(serverTime) - Date.now();
}

export const now = () => (Date.now() + ahead) / 1000;

export function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const minutes = Math.floor(whole / 60);
  const hours = Math.floor(whole / 3600);
  const days = Math.floor(whole / 86400);
  const steps = [
    [120, `${whole}s`, 0, ""],
    [600, `${minutes}m`, whole % 60, "s"],
    [3 * 3600, `${minutes}m`, 0, ""],
    [8 * 3600, `${hours}h`, minutes % 60, "m"],
    [48 * 3600, `${hours}h`, 0, ""],
    [8 * 86400, `${days}d`, hours % 24, "h"],
    [2 * 365 * 86400, `${days}d`, 0, ""],
    [8 * 365 * 86400, `${Math.floor(days / 365)}y`, days % 365, "d"],
  ];
  for (const [below, large, small, unit] of steps) {
    if (whole < below) return small ? `${large}${small}${unit}` : large;
  }
  return `${Math.floor(days / 365)}y`;
}

export const ageSince = (time) => age(now() - Date.parse(time) / 1000);

export function clock(time) {
  return new Date(Date.parse(time)).toLocaleTimeString([], { hour12: false });
}

// With the day, unless it is today.
export function moment(time) {
  const then = new Date(Date.parse(time));
  if (then.toDateString() === new Date().toDateString()) return clock(time);
  const day = then.toLocaleDateString([], { month: "short", day: "numeric" });
  return `${day} ${then.toLocaleTimeString([], { hour12: false, hour: "2-digit", minute: "2-digit" })}`;
}

// Ages grow without any news.
export function keepAges() {
  setInterval(() => {
    for (const each of document.querySelectorAll("[data-since]")) {
      const text = ageSince(each.dataset.since);
      if (each.textContent !== text) each.textContent = text;
    }
  }, 1000);
}

// A number, or the text of an amount, with its thousands apart: 12,000 or 14,864Gi.
export const grouped = (value) => String(value).replace(/^\d{4,}/, (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ","));

const BYTES = /^(memory|ephemeral-storage|storage|hugepages-)/;
const UNITS = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

export function quantity(name, value) {
  let power = 0;
  let size = value;
  while (BYTES.test(name) && size >= 1024 && power < UNITS.length - 1) {
    size /= 1024;
    power += 1;
  }
  return grouped(`${Number(size.toFixed(size < 100 ? 2 : 0))}${UNITS[power]}`);
}

// What people call a resource, such as GPUs, CPUs or memory, and a single one of it.
export function called(name, number = 2) {
  if (name.startsWith("devices of ")) return number === 1 ? name.replace("devices", "device") : name;
  const last = name.split("/").at(-1);
  if (/^(gpu|tpu|npu|cpu)$/.test(last)) return `${last.toUpperCase()}${number === 1 ? "" : "s"}`;
  return last;
}

// Says of jobs that there are none: which ones depends on what the visitor may see.
export const seenBy = (visitor) => (visitor.namespaces === null ? "" : " that you may see");

// What stands where nothing is shown: an instance that doesn't schedule doesn't know.
export const unless = (about, sentence) => (about.instance.leads ? sentence : "Only the instance that leads knows.");

// Names of service accounts without their prefix.
export const accountOf = (user) => user.replace(/^system:serviceaccount:([^:]+):([^:]+)$/, "$1/$2");

export const count = (number, one, more = `${one}s`) => `${grouped(number)} ${number === 1 ? one : more}`;

// NotEnoughResources → Not enough resources
export function words(code) {
  const text = code.replace(/([a-z])([A-Z])/g, (_, before, after) => `${before} ${after.toLowerCase()}`);
  return text || "No reason yet";
}
