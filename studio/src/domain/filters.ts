import { isEnded, RUN_STATUSES, type RunStatus } from "./status";

/** Filters of the runs list. The address holds them, so a copied address shows the same rows. */
export interface RunFilters {
  status: RunStatus[];
  workflow: string;
  version: string;
  queue: string;
  trigger: string;
  key: string; // the beginning of it
  tag: string; // name=value
  error: string; // words of it
  parent: string; // id of a run
  since: string; // "24h", "7d", or a moment
  until: string;
  q: string; // the beginning of an id or a key
}

export const NO_FILTERS: RunFilters = {
  status: [],
  workflow: "",
  version: "",
  queue: "",
  trigger: "",
  key: "",
  tag: "",
  error: "",
  parent: "",
  since: "",
  until: "",
  q: "",
};
const NAMED = [
  "workflow",
  "version",
  "queue",
  "trigger",
  "key",
  "tag",
  "error",
  "parent",
  "since",
  "until",
] as const;
const TEXTS = [...NAMED, "q"] as const;

/** What can stand before a colon. */
export const FILTER_NAMES: readonly string[] = ["status", ...NAMED];

const WORDS: Record<string, RunStatus> = {
  queued: "pending",
  waiting: "suspended",
  "timed-out": "timed_out",
};

export function readFilters(search: Record<string, unknown>): RunFilters {
  const text = (name: string) => (typeof search[name] === "string" ? (search[name] as string) : "");
  const filters: RunFilters = { ...NO_FILTERS, status: statuses(text("status")) };
  for (const name of TEXTS) filters[name] = text(name);
  return filters;
}

/** Only what is set, so that an unfiltered address is short. */
export function writeFilters(filters: RunFilters): Record<string, string> {
  const out: Record<string, string> = {};
  if (filters.status.length) out.status = filters.status.join(",");
  for (const name of TEXTS) if (filters[name]) out[name] = filters[name];
  return out;
}

function statuses(text: string): RunStatus[] {
  const names = text.split(",").map((name) => WORDS[name.toLowerCase()] ?? name.toLowerCase());
  return RUN_STATUSES.filter((status) => names.includes(status));
}

/** Words of a text; what stands in quotes is one word: error:"card declined". */
function words(text: string): string[] {
  return (text.match(/(?:[^\s"]|"[^"]*(?:"|$))+/g) ?? []).map((word) => word.replaceAll('"', ""));
}

/** Read what was typed: "status:failed workflow:order some text". The rest is text. */
export function typed(text: string, before: RunFilters): RunFilters {
  const filters = { ...before };
  const rest: string[] = [];
  for (const word of words(text)) {
    const [, name, value] = /^([a-z]+):(.+)$/.exec(word) ?? [];
    if (name === "status" && value) {
      filters.status = statuses([...filters.status, ...value.split(",")].join(","));
    } else if (name && value && (NAMED as readonly string[]).includes(name)) {
      filters[name as (typeof NAMED)[number]] = value;
    } else rest.push(word);
  }
  if (rest.length) filters.q = rest.join(" ");
  return filters;
}

/** Why a typed text cannot be taken, in words; "" if it can. */
export function typedProblem(text: string): string {
  for (const word of words(text)) {
    const [, name, value] = /^([a-z]+):(.*)$/.exec(word) ?? [];
    if (!name) continue;
    if (!FILTER_NAMES.includes(name))
      return `There is no filter ${name}.${meant(name, FILTER_NAMES)} There are ${FILTER_NAMES.join(", ")}.`;
    if (!value) continue;
    if (name === "status" && !statuses(value).length) {
      return `There is no status ${value}.${meant(value, RUN_STATUSES)} There are ${RUN_STATUSES.join(", ")}.`;
    }
    if (name === "tag" && !value.includes("=")) return "A tag is written as tag:name=value.";
    if ((name === "since" || name === "until") && !moment(value, 0)) {
      return `A time is 30m, 24h, 7d, or a moment like 2026-11-18T09:00.`;
    }
  }
  return "";
}

export interface Chip {
  name: keyof RunFilters;
  value: string;
  without: RunFilters;
}

export function chips(filters: RunFilters): Chip[] {
  const all: Chip[] = filters.status.map((status) => ({
    name: "status" as const,
    value: status,
    without: { ...filters, status: filters.status.filter((other) => other !== status) },
  }));
  for (const name of TEXTS) {
    if (filters[name]) all.push({ name, value: filters[name], without: { ...filters, [name]: "" } });
  }
  return all;
}

/** The filters as the API takes them. A text of hex digits is an id, any other one a key. */
export function asQuery(filters: RunFilters, now: number) {
  const isId = /^[0-9a-f]{6,32}$/.test(filters.q);
  const since = moment(filters.since, now);
  const until = moment(filters.until, now);
  return {
    ...groupQuery(filters),
    ...(filters.trigger ? { trigger: filters.trigger } : {}),
    ...(filters.parent ? { parent: filters.parent } : {}),
    ...(filters.key ? { key_prefix: filters.key } : {}),
    ...(filters.q ? (isId ? { id_prefix: filters.q } : { key_prefix: filters.q }) : {}),
    ...(filters.tag.includes("=") ? { tag: [filters.tag] } : {}),
    ...(filters.error ? { error: filters.error } : {}),
    ...(since ? { since } : {}),
    ...(until ? { until } : {}),
  };
}

/** The filters that groups of runs have; runs are counted by them alone. */
export function groupQuery(filters: RunFilters) {
  return {
    ...(filters.status.length ? { status: filters.status } : {}),
    ...(filters.workflow ? { workflow: filters.workflow } : {}),
    ...(filters.version ? { version: filters.version } : {}),
    ...(filters.queue ? { queue: filters.queue } : {}),
  };
}

const GROUP: readonly string[] = ["status", "workflow", "version", "queue", "since", "until"];

/** Whether the server can count what the filters match, without looking at runs. */
export function countable(filters: RunFilters): boolean {
  return Object.keys(writeFilters(filters)).every((name) => GROUP.includes(name));
}

export type BulkVerb = "retry" | "cancel" | "delete";

/** Which runs a verb can change: it leaves the others alone. */
export function takes(verb: BulkVerb, status: RunStatus): boolean {
  if (verb === "retry") return status === "failed" || status === "timed_out";
  return verb === "delete" ? isEnded(status) : !isEnded(status);
}

/**
 * All runs that match, as a bulk job takes them; null if a job cannot. It always names statuses, since an empty
 * filter is refused.
 */
export function bulkBody(filters: RunFilters, verb: BulkVerb, now: number) {
  if (filters.q || filters.key || filters.parent) return null;
  const wanted = filters.status.length ? filters.status : RUN_STATUSES;
  const status = wanted.filter((each) => takes(verb, each));
  const since = moment(filters.since, now);
  const until = moment(filters.until, now);
  const tag = /^([^=]+)=(.*)$/.exec(filters.tag);
  return {
    status,
    workflow: filters.workflow,
    version: filters.version,
    queue: filters.queue,
    trigger: filters.trigger,
    error: filters.error,
    ...(tag ? { tags: { [tag[1] ?? ""]: tag[2] ?? "" } } : {}),
    ...(since ? { since: Date.parse(since) / 1000 } : {}),
    ...(until ? { until: Date.parse(until) / 1000 } : {}),
  };
}

const UNIT: Record<string, number> = { s: 1e3, m: 6e4, h: 36e5, d: 864e5, w: 6048e5 };

/**
 * "24h" before now, or a moment as it stands; "" if it is neither. Rounded to the minute, so that the same filter
 * is the same request for a while.
 */
export function moment(text: string, now: number): string {
  const match = /^(\d+)([smhdw])$/.exec(text);
  if (match) {
    const at = now - Number(match[1]) * (UNIT[match[2] ?? "h"] ?? 36e5);
    return new Date(Math.floor(at / 6e4) * 6e4).toISOString();
  }
  const at = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? "" : new Date(at).toISOString();
}

/** Whether a run that arrives live belongs to the list. What only the server can say is null: ask it. */
export function matches(
  run: { status: RunStatus; workflow: string; version: string; key: string; trigger: string },
  filters: RunFilters,
): boolean | null {
  if (filters.status.length && !filters.status.includes(run.status)) return false;
  if (filters.workflow && run.workflow !== filters.workflow) return false;
  if (filters.version && run.version !== filters.version) return false;
  if (filters.trigger && run.trigger !== filters.trigger) return false;
  if (filters.key && !run.key.startsWith(filters.key)) return false;
  if (filters.until) return false;
  return filters.q || filters.tag || filters.error || filters.queue || filters.parent ? null : true;
}

/** " Did you mean status?" for a word that is one or two letters off, else nothing. */
function meant(word: string, known: readonly string[]): string {
  const near = known
    .map((each) => ({ each, far: distance(word, each) }))
    .filter(({ far }) => far <= 2)
    .sort((a, b) => a.far - b.far)[0];
  return near ? ` Did you mean ${near.each}?` : "";
}

/** How many letters must be added, removed, replaced or swapped with the next one. */
function distance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      const at = (up: number, left: number) => rows[i - up]?.[j - left] ?? Number.POSITIVE_INFINITY;
      let least = Math.min(at(1, 0) + 1, (row[j - 1] ?? 0) + 1, at(1, 1) + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, at(2, 2) + 1);
      row.push(least);
    }
    rows.push(row);
  }
  return rows[a.length]?.[b.length] ?? 0;
}
