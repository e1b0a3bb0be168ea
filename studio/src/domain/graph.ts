import { attemptsAt, type Row, type RunModel, statusAt } from "./run";
import { isEnded, type StepStatus } from "./status";
import { worst } from "./timeline";

/** A graph or a state chart as a drawing: nodes and edges, and what a run did on them. */

export interface DrawnNode {
  id: string;
  type: string;
  parent: string;
  name: string;
  rule: string; // of a join
}

export interface DrawnEdge {
  id: string;
  source: string;
  target: string;
  handle: string;
  label: string;
}

export interface Drawing {
  nodes: DrawnNode[];
  edges: DrawnEdge[];
  ordered?: boolean; // nodes stand in the order in which they are reached
}

/** Nodes that only hold others together: they have no number, and no row in the outline. */
export const GATES: readonly string[] = ["start", "fork", "merge"];

export interface NodeState {
  status: StepStatus;
  fact: string; // one fact, in words
  order: number; // in which it was reached; 0: not yet
  rows: string[]; // paths
  done: number;
  total: number | null;
}

export type EdgeState = "pending" | "taken" | "untaken" | "error" | "errortaken" | "active" | "wait";

interface RawNode {
  id: string;
  type: string;
  parentId?: string;
  data?: Record<string, unknown>;
}

interface RawEdge {
  id?: string;
  source: string;
  target: string;
  sourceHandle?: string;
}

const QUIET = new Set(["", "out", "default", "loop", "body"]);

export function graphDrawing(definition: unknown): Drawing {
  const raw = (definition ?? {}) as { nodes?: RawNode[]; edges?: RawEdge[] };
  const nodes = (raw.nodes ?? []).map((node) => ({
    id: node.id,
    type: node.type,
    parent: node.parentId ?? "",
    name: node.id,
    rule: String(node.data?.joinMode ?? node.data?.mode ?? (node.type === "merge" ? "all" : "")),
  }));
  const known = new Set(nodes.map((node) => node.id));
  const edges = (raw.edges ?? [])
    .filter((edge) => known.has(edge.source) && known.has(edge.target))
    .map((edge, index) => {
      const handle = edge.sourceHandle ?? "out";
      return {
        id: edge.id ?? `edge ${index}`,
        source: edge.source,
        target: edge.target,
        handle,
        label: QUIET.has(handle) ? "" : handle,
      };
    });
  return { nodes, edges };
}

/** The id of the node that a path is about: its last part, without the count of a loop. */
export function nodeOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1).replace(/[#@[].*$/, "");
}

export function nodeStates(
  model: RunModel,
  drawing: Drawing,
  seq: number,
  word: (row: Row) => string,
): Map<string, NodeState> {
  const rowsOf = new Map<string, Row[]>();
  for (const row of model.rows) {
    if (row.first > seq) continue;
    const id = nodeOf(row.path);
    const rows = rowsOf.get(id);
    if (rows) rows.push(row);
    else rowsOf.set(id, [row]);
  }
  const states = new Map<string, NodeState>();
  let order = 0;
  const reached = [...rowsOf.entries()].sort((a, b) => (a[1][0]?.first ?? 0) - (b[1][0]?.first ?? 0));
  const orderOf = new Map<string, number>();
  const gates = new Set(drawing.nodes.filter((node) => GATES.includes(node.type)).map((node) => node.id));
  for (const [id, rows] of reached)
    if (!gates.has(id) && rows.some((row) => statusAt(row, seq) !== "skipped")) orderOf.set(id, ++order);
  for (const node of drawing.nodes) {
    const rows = rowsOf.get(node.id) ?? [];
    const last = rows.at(-1);
    if (!last) {
      states.set(node.id, { status: "idle", fact: "", order: 0, rows: [], done: 0, total: null });
      continue;
    }
    const statuses = rows.map((row) => statusAt(row, seq));
    const count = last.counts.filter((each) => each.seq <= seq).at(-1);
    states.set(node.id, {
      status: rows.length === 1 ? (statuses[0] ?? "idle") : worst(statuses),
      fact: rows.length > 1 ? `${statuses.filter((each) => each === "completed").length} done` : word(last),
      order: orderOf.get(node.id) ?? 0,
      rows: rows.map((row) => row.path),
      done: count?.done ?? 0,
      total: count?.total ?? null,
    });
  }
  return states;
}

export function edgeState(edge: DrawnEdge, model: RunModel, states: Map<string, NodeState>): EdgeState {
  const source = states.get(edge.source);
  const target = states.get(edge.target);
  const isError = /error|catch|fail/i.test(edge.handle);
  const rest: EdgeState = isError ? "error" : "pending";
  if (!source || !target || source.status === "idle") return rest;
  if (source.status === "skipped") return isError ? "error" : "untaken";
  const handles = source.rows.flatMap((path) => model.byPath.get(path)?.handles ?? []);
  if (handles.length && !handles.includes(edge.handle)) return isError ? "error" : "untaken";
  if (target.status === "skipped") return isError ? "error" : "untaken";
  if (target.status === "idle") return rest;
  if (isEnded(source.status) || source.rows.length > 0) return isError ? "errortaken" : "taken";
  return rest;
}

/** What stands in a node of a run. */
export function nodeFact(row: Row, seq: number, now: number, span: (ms: number) => string): string {
  const status = statusAt(row, seq);
  const attempts = attemptsAt(row, seq);
  const last = attempts.at(-1);
  switch (status) {
    case "completed":
      if (row.handles.length && !QUIET.has(row.handles[0] ?? "")) return `→ ${row.handles.join(", ")}`;
      return last && last.end !== null && last.end > last.start ? span(last.end - last.start) : "";
    case "failed":
      return attempts.length > 1 ? `${attempts.length} of ${attempts.length} failed` : "failed";
    case "retrying":
      return `attempt ${attempts.length + 1}${row.retryAt ? ` in ${span(Math.max(row.retryAt - now, 0))}` : ""}`;
    case "suspended":
      return row.kind === "timer" ? "waits" : `for ${row.what === "step" ? "an answer" : row.what}`;
    case "running":
      return last ? span(Math.max(now - last.start, 0)) : "";
    case "skipped":
      return "not taken";
    default:
      return "";
  }
}

/**
 * Ways out after an error whose target has no other way in: edge -> the node before its source. The target
 * stands above or below its source, so that the drawing is no wider for it.
 */
export function besideTheirSource(drawing: Drawing): Map<string, string> {
  const into = new Map<string, DrawnEdge[]>();
  for (const edge of drawing.edges) into.set(edge.target, [...(into.get(edge.target) ?? []), edge]);
  const parents = new Map(drawing.nodes.map((node) => [node.id, node.parent]));
  const holders = new Set(drawing.nodes.map((node) => node.parent));
  const out = new Map<string, string>();
  for (const edge of drawing.edges) {
    const before = into.get(edge.source)?.[0]?.source;
    const alike = parents.get(edge.source) === parents.get(edge.target);
    const plain = !holders.has(edge.source) && !holders.has(edge.target);
    const only = into.get(edge.target)?.length === 1;
    if (edge.handle === "error" && !drawing.ordered && before && alike && plain && only)
      out.set(edge.id, before);
  }
  return out;
}

// State charts

interface RawMachine {
  start?: string;
  ends?: string[];
  places?: { name: string; kind: string; waits?: boolean }[];
  transitions?: {
    name: string;
    sources: string[];
    target: string;
    wait?: boolean;
    guarded?: boolean;
    on_error?: string;
    on_timeout?: string;
    retry?: { then?: string };
  }[];
}

export function chartDrawing(definition: unknown): Drawing {
  const raw = (definition ?? {}) as RawMachine;
  const nodes = (raw.places ?? []).map((place) => ({
    id: place.name,
    type: place.kind,
    parent: "",
    name: place.name,
    rule: "",
  }));
  const order = walk(raw);
  nodes.sort((a, b) => order.indexOf(a.id) - order.indexOf(b.id));
  const edges = (raw.transitions ?? []).flatMap((transition) =>
    transition.sources.flatMap((source) => {
      const handle = transition.wait ? "wait" : "out";
      const label = transition.guarded ? `${transition.name}, when …` : transition.name;
      const main = { id: `${source} ${transition.name}`, source, target: transition.target, handle, label };
      const others: [string | undefined, string][] = [
        [transition.retry?.then, "error"],
        [transition.on_error, "error"],
        [transition.on_timeout, "timeout"],
      ];
      const more = others
        .filter(([target]) => target)
        .map(([target, name]) => ({
          id: `${source} ${transition.name} ${name}`,
          source,
          target: target ?? "",
          handle: name,
          label: name === "error" ? "after its attempts" : "timeout",
        }));
      return [main, ...more];
    }),
  );
  return { nodes, edges, ordered: true };
}

/** Places in the order in which a run can first reach them, so that the chart reads from left to right. */
function walk(raw: RawMachine): string[] {
  const all = (raw.places ?? []).map((place) => place.name);
  const out = (raw.places ?? []).filter((place) => place.kind === "start").map((place) => place.name);
  for (let at = 0; at < out.length; at++) {
    for (const transition of raw.transitions ?? []) {
      if (!transition.sources.includes(out[at] ?? "")) continue;
      const targets = [transition.target, transition.on_error, transition.on_timeout, transition.retry?.then];
      for (const target of targets) if (target && !out.includes(target)) out.push(target);
    }
  }
  return [...out, ...all.filter((name) => !out.includes(name))];
}

/** Visits of every place and every transition, and the place where the run is. */
export function chartStates(model: RunModel, drawing: Drawing, seq: number) {
  const visits = model.visits.filter((visit) => visit.seq <= seq);
  const here = visits.at(-1)?.place ?? drawing.nodes.find((node) => node.type === "start")?.id ?? "";
  const places = new Map<string, number>();
  const taken = new Map<string, number>();
  let before = drawing.nodes.find((node) => node.type === "start")?.id ?? "start";
  for (const visit of visits) {
    places.set(visit.place, (places.get(visit.place) ?? 0) + 1);
    for (const edge of drawing.edges) {
      const name = edge.id.split(" ")[1];
      if (edge.source === before && edge.target === visit.place && name === visit.transition) {
        taken.set(edge.id, (taken.get(edge.id) ?? 0) + 1);
      }
    }
    before = visit.place;
  }
  return { here, places, taken, visits };
}
