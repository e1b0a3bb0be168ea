/** Times in words. Everything is passed in, so that a test needs no clock. */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** "8.1 s", "1 h 12 m", "2 d 4 h": two units at most. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return "—";
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 59.95 * SECOND) return `${(ms / SECOND).toFixed(1)} s`;
  if (ms < HOUR) return pair(ms, MINUTE, "m", SECOND, "s");
  if (ms < DAY) return pair(ms, HOUR, "h", MINUTE, "m");
  return pair(ms, DAY, "d", HOUR, "h");
}

function pair(ms: number, big: number, bigUnit: string, small: number, smallUnit: string): string {
  let whole = Math.floor(ms / big);
  let rest = Math.round((ms - whole * big) / small);
  if (rest * small >= big) {
    whole += 1;
    rest = 0;
  }
  return rest ? `${whole} ${bigUnit} ${rest} ${smallUnit}` : `${whole} ${bigUnit}`;
}

/** "2 m ago", "in 3 h"; up to a day, then the date. */
export function ago(at: number, now: number, zone: string | undefined): string {
  const past = now - at;
  if (Math.abs(past) > DAY) return day(at, now, zone);
  const words = coarse(Math.abs(past));
  if (words === "") return "now";
  return past >= 0 ? `${words} ago` : `in ${words}`;
}

/** One unit: "52 s", "4 m", "3 h", "2 d". */
export function coarse(ms: number): string {
  if (ms < 1500) return "";
  if (ms < MINUTE) return `${Math.round(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.round(ms / MINUTE)} m`;
  if (ms < DAY) return `${Math.round(ms / HOUR)} h`;
  return `${Math.round(ms / DAY)} d`;
}

function day(at: number, now: number, zone: string | undefined): string {
  const year = new Date(at).getFullYear() === new Date(now).getFullYear() ? undefined : "numeric";
  return new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year, timeZone: zone }).format(
    at,
  );
}

/** "2026-11-18 10:21:52.342", for titles. */
export function absolute(at: number, zone: string | undefined): string {
  const parts = new Intl.DateTimeFormat("sv-SE", {
    dateStyle: "short",
    timeStyle: "medium",
    timeZone: zone,
  }).format(at);
  return `${parts}.${String((at % 1000) | 0).padStart(3, "0")}${zone === "UTC" ? " UTC" : ""}`;
}

/** "10:21:52", for axes and rows of a day. */
export function clock(at: number, zone: string | undefined, millis = false): string {
  const text = new Intl.DateTimeFormat("sv-SE", { timeStyle: "medium", timeZone: zone }).format(at);
  return millis ? `${text}.${String(Math.floor(at % 1000)).padStart(3, "0")}` : text;
}

export function instant(text: string | null | undefined): number | null {
  return text ? Date.parse(text) : null;
}
