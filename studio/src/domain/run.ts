import { parsePath } from "./path";
import { isEnded, type RunStatus, type StepStatus } from "./status";
import { asProblem, type Problem } from "./where";

/**
 * A run, folded from its events. Nothing here knows React or the network: the same events always give the
 * same run, at every seq.
 */

export interface RunEvent {
  seq: number;
  at: number; // milliseconds
  kind: string;
  path: string;
  attempt: number;
  data: Record<string, unknown>;
}

export type RowKind = "step" | "wait" | "timer" | "child" | "node" | "transition" | "loop";

export interface Change {
  seq: number;
  at: number;
  status: StepStatus;
}

export interface Attempt {
  number: number;
  seqStart: number;
  seqEnd: number | null;
  due: number; // when it could have begun: the time up to `start` is queued
  start: number;
  end: number | null;
  status: StepStatus;
  error: Problem | null;
  worker: string;
}

/** A step, wait, node or transition of the run. */
export interface Row {
  path: string;
  lane: string;
  name: string;
  kind: RowKind;
  what: string; // for a wait: approval, signal, event, trigger
  first: number; // seq
  changes: Change[];
  attempts: Attempt[];
  result: number | null; // seq of the event that has the result
  retryAt: number | null;
  note: string;
  open: RunEvent | null; // of a wait that nobody has answered
  handles: string[]; // of a node: the ways out it took
  child: string; // run
  counts: { seq: number; done: number; total: number | null }[]; // of a loop
  used: Used[]; // by its attempts
  details: { seq: number; attempt: number; values: Record<string, unknown> }[]; // what it shows of itself
}

/** Tokens of a model that an attempt used, and what they cost. */
export interface Used {
  seq: number;
  input: number;
  output: number;
  cost: number;
}

export interface Claim {
  seq: number;
  at: number;
  worker: string;
  lost: string; // the worker that had it before and died, if it did
}

export interface Visit {
  place: string;
  seq: number;
  at: number;
  transition: string;
}

export interface RunModel {
  rows: Row[];
  byPath: Map<string, Row>;
  last: number;
  begin: number;
  lastAt: number;
  claims: Claim[];
  ending: {
    seq: number;
    at: number;
    status: RunStatus;
    error: Problem | null;
    by: string;
    reason: string;
  } | null;
  endings: { seq: number; status: RunStatus }[]; // a retried run has more than one
  retries: number[]; // seqs
  checkpoints: number[]; // seqs that a run can be forked from
  failures: number[]; // seqs
  progress: { seq: number; done: number; total: number | null; text: string }[];
  visits: Visit[];
  published: { seq: number; at: number; topic: string; data: unknown }[];
  compensations: Map<string, string>; // path of a step -> how its undoing went
}

const ENDINGS: Record<string, RunStatus> = {
  completed: "completed",
  failed: "failed",
  cancelled: "cancelled",
  timed_out: "timed_out",
};
const NODE_STATUS: Record<string, StepStatus> = {
  node_started: "running",
  node_suspended: "suspended",
  node_resumed: "running",
  node_completed: "completed",
  node_failed: "failed",
  node_skipped: "skipped",
  node_cancelled: "cancelled",
};
const WAIT_STATUS: Record<string, StepStatus> = {
  answered: "completed",
  timed_out: "timed_out",
  withdrawn: "cancelled",
};

/** A fold that goes on: each event is read once, however long the log has become. */
export class Fold {
  private readonly clockOf = new Map<string, number>(); // lane -> when its last step ended
  private model = begun();

  /** Take the next events. Each answer is another object, and shares its rows with those before. */
  add(events: readonly RunEvent[]): RunModel {
    const model = { ...this.model };
    if (!model.last && events[0]) model.begin = events[0].at;
    for (const event of events) {
      take(model, this.clockOf, event);
      if (Array.isArray(event.data.starts))
        for (const path of event.data.starts) started(model, event, String(path));
      model.last = event.seq;
      model.lastAt = event.at;
    }
    this.model = model;
    return model;
  }
}

export function fold(events: readonly RunEvent[]): RunModel {
  return new Fold().add(events);
}

function begun(): RunModel {
  return {
    rows: [],
    byPath: new Map(),
    last: 0,
    begin: 0,
    lastAt: 0,
    claims: [],
    ending: null,
    endings: [],
    retries: [],
    checkpoints: [],
    failures: [],
    progress: [],
    visits: [],
    published: [],
    compensations: new Map(),
  };
}

function take(model: RunModel, clockOf: Map<string, number>, event: RunEvent): void {
  const { kind, data, seq, at } = event;
  const ending = ENDINGS[kind];
  if (ending) {
    const error = asProblem(data.error);
    model.ending = { seq, at, status: ending, error, by: text(data.by), reason: text(data.reason) };
    model.endings.push({ seq, status: ending });
    for (const row of model.rows) close(row, event, ending === "completed" ? "completed" : "cancelled");
    return;
  }
  switch (kind) {
    case "claimed": {
      const before = model.claims.at(-1);
      const since = typeof data.since === "number" && data.since ? data.since * 1000 : at;
      model.claims.push({
        seq,
        at: since,
        worker: text(data.worker),
        lost: before && !before.worker ? before.lost : "",
      });
      clockOf.set("", Math.max(since, clockOf.get("") ?? 0));
      return;
    }
    case "lease_lost": {
      const owner = model.claims.at(-1);
      model.claims.push({ seq, at, worker: "", lost: owner?.worker ?? "" });
      clockOf.set("", at);
      return;
    }
    case "retried": {
      model.ending = null;
      model.retries.push(seq);
      clockOf.set("", at);
      return;
    }
    case "progress":
      model.progress.push({ seq, done: Number(data.done), total: number(data.total), text: text(data.text) });
      return;
    case "compensation_started":
      for (const path of list(data.steps)) model.compensations.set(path, "Its compensation has not run yet.");
      return;
    case "compensation_completed": {
      const failed = new Set(list(data.failed));
      for (const path of model.compensations.keys()) {
        const words = failed.has(path) ? "Its compensation failed." : "Its compensation ran.";
        model.compensations.set(path, words);
      }
      return;
    }
    case "published":
      model.published.push({ seq, at, topic: text(data.topic), data: data.data });
      return;
    default:
      // A path like `pay@timeout` is a part of a node, and not shown by itself.
      if (event.path && !/@[a-z_]+$/.test(event.path)) about(model, clockOf, event);
  }
}

/** An event that is about a place in the run. */
function about(model: RunModel, clockOf: Map<string, number>, event: RunEvent): void {
  const { kind, data, seq, at } = event;
  switch (kind) {
    case "step_scheduled":
      begin(rowOf(model, event, "step"), event, clockOf, "pending", at);
      return;
    case "step_started":
      begin(rowOf(model, event, "step"), event, clockOf, "running", null);
      return;
    case "step_completed": {
      const row = rowOf(model, event, "step");
      finish(row, event, clockOf, "completed", null);
      row.result = seq;
      model.checkpoints.push(seq);
      return;
    }
    case "step_failed": {
      const row = rowOf(model, event, "step");
      finish(row, event, clockOf, "failed", asProblem(data.error));
      model.failures.push(seq);
      retryOf(row, event);
      return;
    }
    case "transition_completed": {
      const row = rowOf(model, event, "transition");
      row.note = `${text(data.source)} → ${text(data.target)}`;
      finish(row, event, clockOf, "completed", asProblem(data.error));
      row.result = seq;
      model.checkpoints.push(seq);
      model.visits.push({ place: text(data.target), seq, at, transition: text(data.transition) });
      return;
    }
    case "transition_failed": {
      const row = rowOf(model, event, "transition");
      finish(row, event, clockOf, "failed", asProblem(data.error));
      model.failures.push(seq);
      retryOf(row, event);
      return;
    }
    case "wait_opened": {
      const row = rowOf(model, event, "wait");
      row.what = text(data.what);
      row.note = text(data.title);
      row.open = event;
      wait(row, event);
      return;
    }
    case "wait_ended": {
      const row = rowOf(model, event, "wait");
      row.open = null;
      row.result = seq;
      close(row, event, WAIT_STATUS[text(data.outcome)] ?? "completed");
      clockOf.set(row.lane, at);
      return;
    }
    case "timer_set": {
      if (data.retry) return;
      const row = rowOf(model, event, "timer");
      row.note = `${Number(data.seconds)} s`;
      wait(row, event);
      row.retryAt = at + Number(data.seconds) * 1000;
      return;
    }
    case "timer_fired": {
      const row = model.byPath.get(event.path);
      if (!row) return;
      row.retryAt = null;
      close(row, event, "completed");
      clockOf.set(row.lane, at);
      return;
    }
    case "child_started": {
      const row = rowOf(model, event, "child");
      row.child = text(data.run);
      row.note = text(data.workflow);
      row.changes.push({ seq, at, status: "running" });
      if (!row.attempts.length) row.attempts.push(attempt(1, seq, at, at, "running"));
      return;
    }
    case "child_ended": {
      const row = rowOf(model, event, "child");
      const status = (text(data.status) || "completed") as StepStatus;
      close(row, event, status);
      const ended = row.attempts.at(-1);
      if (ended) ended.error = asProblem(data.error);
      if (status === "failed") model.failures.push(seq);
      row.result = seq;
      clockOf.set(row.lane, at);
      return;
    }
    case "loop_started": {
      const row = rowOf(model, event, "loop");
      row.kind = "loop";
      row.changes.push({ seq, at, status: "running" });
      if (!row.attempts.length) row.attempts.push(attempt(1, seq, at, at, "running"));
      row.counts.push({ seq, done: 0, total: number(data.count) });
      return;
    }
    case "loop_advanced": // its path names the iteration that is over
    case "loop_completed": {
      const row = model.byPath.get(event.path.replace(/\[\d+\]$/, ""));
      const total = number(data.count) ?? row?.counts.at(-1)?.total ?? number(data.done);
      row?.counts.push({ seq, done: number(data.done) ?? 0, total });
      return;
    }
    case "usage_reported": {
      const used = {
        input: number(data.input_tokens),
        output: number(data.output_tokens),
        cost: number(data.cost),
      };
      rowOf(model, event, "step").used.push({
        seq,
        input: used.input ?? 0,
        output: used.output ?? 0,
        cost: used.cost ?? 0,
      });
      return;
    }
    case "details_reported": {
      const values = data.details;
      if (values !== null && typeof values === "object")
        rowOf(model, event, "step").details.push({ seq, attempt: event.attempt, values: { ...values } });
      return;
    }
    default: {
      const status = NODE_STATUS[kind];
      if (!status) return;
      const row = rowOf(model, event, "node");
      if (Array.isArray(data.handles)) row.handles = data.handles.map(String);
      if (isEnded(status) || status === "skipped") {
        if (!row.attempts.length && status !== "skipped") row.attempts.push(attempt(1, seq, at, at, status));
        close(row, event, status);
        if (!row.changes.some((change) => change.seq === seq)) row.changes.push({ seq, at, status });
        const ended = row.attempts.at(-1);
        if (ended && status === "failed") {
          ended.error = asProblem(data.error);
          model.failures.push(seq);
        }
        if (status === "completed" && row.result === null) row.result = seq;
      } else {
        row.changes.push({ seq, at, status });
        if (!row.attempts.length) row.attempts.push(attempt(1, seq, at, at, status));
      }
    }
  }
}

/** A node of a graph begins because of this event; what kind of node it is follows. */
function started(model: RunModel, event: RunEvent, path: string): void {
  const row = rowOf(model, { ...event, path, data: {} }, "node");
  if (row.attempts.length) return;
  row.attempts.push(attempt(1, event.seq, event.at, event.at, "running"));
  row.changes.push({ seq: event.seq, at: event.at, status: "running" });
}

function rowOf(model: RunModel, event: RunEvent, kind: RowKind): Row {
  const known = model.byPath.get(event.path);
  if (known) {
    if (known.kind === "node") known.kind = kind;
    return known;
  }
  const place = parsePath(event.path);
  const row: Row = {
    path: event.path,
    lane: place.lane,
    name: kind === "transition" ? text(event.data.transition) || place.name : place.name,
    kind,
    what: place.what,
    first: event.seq,
    changes: [],
    attempts: [],
    result: null,
    retryAt: null,
    note: "",
    open: null,
    handles: [],
    child: "",
    counts: [],
    used: [],
    details: [],
  };
  model.rows.push(row);
  model.byPath.set(event.path, row);
  return row;
}

function attempt(number: number, seq: number, due: number, start: number, status: StepStatus): Attempt {
  return { number, seqStart: seq, seqEnd: null, due, start, end: null, status, error: null, worker: "" };
}

/**
 * An attempt begins. Short steps have no event for it, and the event of a long one is written late, so it
 * counts from when the task before it ended.
 */
function begin(
  row: Row,
  event: RunEvent,
  clockOf: Map<string, number>,
  status: StepStatus,
  due: number | null,
): void {
  const current = row.attempts.at(-1);
  if (current && current.number === event.attempt && current.end === null) {
    if (current.status === "pending") current.start = event.at;
    current.status = status;
    row.changes.push({ seq: event.seq, at: event.at, status });
    return;
  }
  const start = due ?? Math.min(event.at, row.retryAt ?? free(clockOf, row.lane, event.at));
  const begun = attempt(event.attempt, event.seq, current?.end ?? start, start, status);
  begun.worker = text(event.data.worker);
  row.attempts.push(begun);
  row.changes.push({ seq: event.seq, at: event.at, status });
  row.retryAt = null;
}

function wait(row: Row, event: RunEvent): void {
  const current = row.attempts.at(-1);
  if (current && current.end === null) {
    current.status = "suspended";
    current.start = event.at;
  } else row.attempts.push(attempt(1, event.seq, event.at, event.at, "suspended"));
  row.changes.push({ seq: event.seq, at: event.at, status: "suspended" });
}

function finish(
  row: Row,
  event: RunEvent,
  clockOf: Map<string, number>,
  status: StepStatus,
  error: Problem | null,
): void {
  const current = row.attempts.at(-1);
  if (!current || current.end !== null) begin(row, event, clockOf, "running", null);
  const ended = row.attempts.at(-1);
  if (!ended) return;
  ended.end = event.at;
  ended.seqEnd = event.seq;
  ended.status = status;
  ended.error = error;
  ended.worker = text(event.data.worker) || ended.worker;
  row.changes.push({ seq: event.seq, at: event.at, status });
  clockOf.set(row.lane, event.at);
}

function retryOf(row: Row, event: RunEvent): void {
  const wait = number(event.data.retry_in);
  if (wait === null) return;
  row.retryAt = event.at + wait * 1000;
  row.changes.push({ seq: event.seq, at: event.at, status: "retrying" });
}

/** Close what is open, because it ended or because the run did. */
function close(row: Row, event: RunEvent, status: StepStatus): void {
  const current = row.attempts.at(-1);
  if (!current || current.end !== null) return;
  current.end = event.at;
  current.seqEnd = event.seq;
  current.status = status;
  row.open = null;
  row.changes.push({ seq: event.seq, at: event.at, status });
}

/** When the task of a lane was free: after its last step, or after that of the task that started it. */
function free(clockOf: Map<string, number>, lane: string, otherwise: number): number {
  const claimed = clockOf.get("") ?? 0;
  for (let at = lane; at; at = at.includes("~") ? at.slice(0, at.lastIndexOf("~")) : parent(at)) {
    const time = clockOf.get(at);
    if (time !== undefined) return Math.max(time, claimed);
  }
  return claimed || otherwise;
}

function parent(lane: string): string {
  const cut = lane.lastIndexOf("/");
  return cut < 0 ? "" : lane.slice(0, cut);
}

// The run at a seq: every question is a comparison.

export function statusAt(row: Row, seq: number): StepStatus {
  let status: StepStatus = "idle";
  for (const change of row.changes) {
    if (change.seq > seq) break;
    status = change.status;
  }
  return status;
}

export function attemptsAt(row: Row, seq: number): Attempt[] {
  return row.attempts.filter((each) => each.seqStart <= seq);
}

export function runStatusAt(model: RunModel, seq: number): RunStatus {
  let ended: RunStatus | null = null;
  for (const ending of model.endings) if (ending.seq <= seq) ended = ending.status;
  const retried = model.retries.filter((at) => at <= seq).at(-1) ?? 0;
  const endedAt = model.endings.filter((ending) => ending.seq <= seq).at(-1)?.seq ?? 0;
  if (ended && endedAt > retried) return ended;
  if (!model.claims.some((claim) => claim.seq <= seq)) return "pending";
  const statuses = model.rows.filter((row) => row.first <= seq).map((row) => statusAt(row, seq));
  if (statuses.some((status) => status === "running" || status === "retrying")) return "running";
  return statuses.includes("suspended") ? "suspended" : "running";
}

export function progressAt(model: RunModel, seq: number) {
  return model.progress.filter((each) => each.seq <= seq).at(-1) ?? null;
}

export function placeAt(model: RunModel, seq: number): Visit | null {
  return model.visits.filter((visit) => visit.seq <= seq).at(-1) ?? null;
}

/** What attempts used up to a seq, in sum. */
export function usedAt(rows: readonly Row[], seq: number): Omit<Used, "seq"> {
  const sum = { input: 0, output: 0, cost: 0 };
  for (const row of rows)
    for (const each of row.used) {
      if (each.seq > seq) continue;
      sum.input += each.input;
      sum.output += each.output;
      sum.cost += each.cost;
    }
  return sum;
}

/** Steps that were done before a worker was lost, and so are read from the log, not run again. */
export function fromHistory(model: RunModel, row: Row, seq: number): boolean {
  const crash = model.claims.find((claim) => claim.lost !== "" && claim.seq <= seq);
  return crash !== undefined && row.result !== null && row.result < crash.seq;
}

function list(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
