// Times as kubectl prints them (apimachinery: duration.HumanDuration); everything else comes as text
// from the server.

let ahead = 0;

export function setClock(serverTime) {
  ahead = Date.parse(serverTime) - Date.now();
}

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

export const ageSince = (time) => age((Date.now() + ahead - Date.parse(time)) / 1000);

export function clock(time) {
  return new Date(Date.parse(time)).toLocaleTimeString([], { hour12: false });
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
