import { RUN_STATUSES, type RunStatus } from "./status";

/** Filters of the runs list. The address holds them, so a copied address shows the same rows. */
export interface RunFilters {
  status: RunStatus[];
  workflow: string;
  key: string;
  q: string;
}

export const NO_FILTERS: RunFilters = { status: [], workflow: "", key: "", q: "" };

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
    key: String(search.key ?? ""),
    q: String(search.q ?? ""),
  };
}

/** Only what is set, so that an unfiltered address is short. */
export function writeFilters(filters: RunFilters): Record<string, string> {
  const out: Record<string, string> = {};
  if (filters.status.length) out.status = filters.status.join(",");
  if (filters.workflow) out.workflow = filters.workflow;
  if (filters.key) out.key = filters.key;
  if (filters.q) out.q = filters.q;
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
    const [, name, value] = /^(status|workflow|key):(.+)$/.exec(word) ?? [];
    if (name === "status" && value) {
      filters.status = statuses([...filters.status, ...value.split(",")].join(","));
    } else if (name === "workflow" && value) filters.workflow = value;
    else if (name === "key" && value) filters.key = value;
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
  for (const name of ["workflow", "key", "q"] as const) {
    if (filters[name]) all.push({ name, value: filters[name], without: { ...filters, [name]: "" } });
  }
  return all;
}

/** Whether a run that arrives live belongs to the list. `q` is the server's business: null, ask it. */
export function matches(
  run: { status: RunStatus; workflow: string; key: string },
  filters: RunFilters,
): boolean | null {
  if (filters.status.length && !filters.status.includes(run.status)) return false;
  if (filters.workflow && run.workflow !== filters.workflow) return false;
  if (filters.key && run.key !== filters.key) return false;
  return filters.q ? null : true;
}
