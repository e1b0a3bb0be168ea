import { RUN_STATUSES, type RunStatus } from "./status";

/** Filters of the runs list. The address holds them, so a copied address shows the same rows. */
export interface RunFilters {
  status: RunStatus[];
  workflow: string;
  key: string; // the beginning of it
  tag: string; // name=value
  error: string; // words of it
  since: string; // "24h", "7d"
  q: string; // the beginning of an id or a key
}

export const NO_FILTERS: RunFilters = {
  status: [],
  workflow: "",
  key: "",
  tag: "",
  error: "",
  since: "",
  q: "",
};
const TEXTS = ["workflow", "key", "tag", "error", "since", "q"] as const;

const WORDS: Record<string, RunStatus> = {
  queued: "pending",
  waiting: "suspended",
  "timed-out": "timed_out",
};

export function readFilters(search: Record<string, unknown>): RunFilters {
  const text = (name: string) => (typeof search[name] === "string" ? (search[name] as string) : "");
  return {
    status: statuses(text("status")),
    workflow: text("workflow"),
    key: text("key"),
    tag: text("tag"),
    error: text("error"),
    since: text("since"),
    q: text("q"),
  };
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

/** Read what was typed: "status:failed workflow:order_* some text". Unknown keys stay text. */
export function typed(text: string, before: RunFilters): RunFilters {
  const filters = { ...before };
  const rest: string[] = [];
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    const [, name, value] = /^(status|workflow|key|tag|error|since):(.+)$/.exec(word) ?? [];
    if (name === "status" && value) {
      filters.status = statuses([...filters.status, ...value.split(",")].join(","));
    } else if (name && value) filters[name as (typeof TEXTS)[number]] = value;
    else rest.push(word);
  }
  if (rest.length) filters.q = rest.join(" ");
  return filters;
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
  const since = sinceMoment(filters.since, now);
  return {
    ...(filters.status.length ? { status: filters.status } : {}),
    ...(filters.workflow ? { workflow: filters.workflow } : {}),
    ...(filters.key ? { key_prefix: filters.key } : {}),
    ...(filters.q ? (isId ? { id_prefix: filters.q } : { key_prefix: filters.q }) : {}),
    ...(filters.tag.includes("=") ? { tag: [filters.tag] } : {}),
    ...(filters.error ? { error: filters.error } : {}),
    ...(since ? { since } : {}),
  };
}

const UNIT: Record<string, number> = { s: 1e3, m: 6e4, h: 36e5, d: 864e5, w: 6048e5 };

/** "24h" before now; rounded to the minute, so that the same filter is the same request for a while. */
export function sinceMoment(text: string, now: number): string {
  const match = /^(\d+)([smhdw])$/.exec(text);
  if (!match) return "";
  const at = now - Number(match[1]) * (UNIT[match[2] ?? "h"] ?? 36e5);
  return new Date(Math.floor(at / 6e4) * 6e4).toISOString();
}

/** Whether a run that arrives live belongs to the list. What only the server can say is null: ask it. */
export function matches(
  run: { status: RunStatus; workflow: string; key: string },
  filters: RunFilters,
): boolean | null {
  if (filters.status.length && !filters.status.includes(run.status)) return false;
  if (filters.workflow && run.workflow !== filters.workflow) return false;
  if (filters.key && !run.key.startsWith(filters.key)) return false;
  return filters.q || filters.tag || filters.error ? null : true;
}
