import { attemptsAt, type Row, type RunModel, statusAt } from "./run";
import type { StepStatus } from "./status";

/** Rows and bars of the timeline, in shares of its width. Long idle times are folded into narrow columns. */

export type BarKind = "ok" | "run" | "bad" | "wait" | "q" | "root" | "br" | "off";

export interface Bar {
  from: number; // 0 to 1
  to: number;
  kind: BarKind;
}

/** A slice of the width, and how busy it was: 1 is the busiest. */
export interface Bin {
  from: number;
  to: number;
  share: number;
  bad: boolean;
}

export interface TreeRow {
  id: string;
  depth: number;
  name: string;
  status: StepStatus;
  row: Row | null; // null: a group
  bars: Bar[];
  density: Bin[]; // of many siblings: how many of them ran at once
  tag: string;
  took: number | null; // milliseconds
  note: string; // in place of it: "47 / 312", "2 of 3 in 1 s"
  group: string; // id, if it can be opened
  open: boolean;
  lane: "" | "first" | "mid" | "last";
}

export interface Gap {
  from: number;
  to: number;
  ms: number;
}

export interface Tick {
  at: number; // 0 to 1
  ms: number; // since the start of its stretch
  time: number; // absolute
  first: boolean;
}

export interface Timeline {
  rows: TreeRow[];
  gaps: Gap[];
  ticks: Tick[];
  now: number;
  crashes: { at: number; lost: string; worker: string }[];
}

export interface TimelineOptions {
  seq: number;
  end: number; // now, or when the cursor's event happened
  collapse: boolean;
  opened: ReadonlySet<string>;
  name: string;
  total?: (step: string) => number | null; // how many calls of a step the run says there will be
}

const IDLE_SHARE = 0.2;
const GAP_WIDTH = 0.11;
const FOLD_FROM = 8; // siblings of one name

export function timeline(model: RunModel, options: TimelineOptions): Timeline {
  const scale = scaleOf(model, options);
  const rows: TreeRow[] = [rootRow(model, scale, options)];
  const visible = model.rows.filter((row) => row.first <= options.seq);
  const lanes = new Map<string, Row[]>();
  for (const row of visible) {
    const lane = lanes.get(row.lane);
    if (lane) lane.push(row);
    else lanes.set(row.lane, [row]);
  }
  const top = [...lanes.keys()].sort((a, b) => depthOf(a) - depthOf(b))[0] ?? "";
  addLane(rows, lanes, top, 1, scale, options, new Set());
  for (const lane of lanes.keys()) {
    if (!lane.startsWith(top)) addLane(rows, lanes, lane, 1, scale, options, new Set());
  }
  const crashes = model.claims
    .filter((claim) => claim.lost && !claim.worker && claim.seq <= options.seq)
    .map((claim) => ({
      at: scale.place(claim.at),
      lost: claim.lost,
      worker: model.claims.find((next) => next.seq > claim.seq && next.worker)?.worker ?? "",
    }));
  return { rows, gaps: scale.gaps, ticks: scale.ticks, now: scale.place(options.end), crashes };
}

// Scale

interface Scale {
  place: (time: number) => number;
  gaps: Gap[];
  ticks: Tick[];
}

function scaleOf(model: RunModel, options: TimelineOptions): Scale {
  const begin = model.begin;
  const end = Math.max(options.end, begin + 1);
  const idle = options.collapse ? idleTimes(model, options, begin, end) : [];
  const busy = end - begin - idle.reduce((sum, [from, to]) => sum + to - from, 0);
  const room = Math.max(1 - idle.length * GAP_WIDTH, 0.3) * 0.985;
  const gapWidth = idle.length ? Math.min(GAP_WIDTH, 0.65 / idle.length) : 0;
  const pieces: { from: number; to: number; at: number; width: number; idle: boolean }[] = [];
  let at = 0;
  let time = begin;
  const add = (to: number, isIdle: boolean) => {
    if (to <= time) return;
    const width = isIdle ? gapWidth : ((to - time) / Math.max(busy, 1)) * room;
    pieces.push({ from: time, to, at, width, idle: isIdle });
    at += width;
    time = to;
  };
  for (const [from, to] of idle) {
    add(from, false);
    add(to, true);
  }
  add(end, false);
  const place = (moment: number) => {
    const piece = pieces.find((each) => moment <= each.to) ?? pieces.at(-1);
    if (!piece) return 0;
    const share = (Math.max(moment, piece.from) - piece.from) / Math.max(piece.to - piece.from, 1);
    return piece.at + Math.min(share, 1) * piece.width;
  };
  const gaps = pieces
    .filter((piece) => piece.idle)
    .map((piece) => ({ from: piece.at, to: piece.at + piece.width, ms: piece.to - piece.from }));
  const stretches = pieces.filter((piece) => !piece.idle);
  const ticks = ticksOf(stretches, busy / Math.max(room, 0.1)).filter(
    (tick) =>
      tick.first || (tick.at < 0.95 && !gaps.some((gap) => tick.at <= gap.to && tick.at > gap.from - 0.05)),
  );
  return { place, gaps, ticks: ticks.filter((tick) => tick.at < 0.95) };
}

/** Times in which nothing executes, if they are long enough to squeeze the rest. */
function idleTimes(
  model: RunModel,
  options: TimelineOptions,
  begin: number,
  end: number,
): [number, number][] {
  if (!model.claims.length) return []; // queued: there is nothing to squeeze
  const spans = model.rows
    .filter((row) => row.kind !== "wait" && row.kind !== "timer" && row.first <= options.seq)
    .flatMap((row) => row.attempts.map((each): [number, number] => [each.start, each.end ?? end]))
    .sort((a, b) => a[0] - b[0]);
  const idle: [number, number][] = [];
  let until = begin;
  for (const [from, to] of [...spans, [end, end] as [number, number]]) {
    if (from - until > (end - begin) * IDLE_SHARE && from - until > 2000) {
      const margin = Math.min((from - until) * 0.04, 1000);
      idle.push([until + margin, from - margin]);
    }
    until = Math.max(until, to);
  }
  return idle.slice(0, 5);
}

function ticksOf(
  stretches: { from: number; to: number; at: number; width: number }[],
  perWidth: number,
): Tick[] {
  const step = niceStep(perWidth / 9);
  return stretches.flatMap((stretch) => {
    const count = Math.min(Math.floor((stretch.to - stretch.from) / step), 30);
    return Array.from({ length: count + 1 }, (_, index) => ({
      at: stretch.at + ((index * step) / Math.max(stretch.to - stretch.from, 1)) * stretch.width,
      ms: index * step,
      time: stretch.from + index * step,
      first: index === 0,
    }));
  });
}

export function niceStep(ms: number): number {
  const steps = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5,
  ];
  return steps.find((step) => step >= ms) ?? Math.ceil(ms / 36e5) * 36e5;
}

// Tree

function addLane(
  out: TreeRow[],
  lanes: Map<string, Row[]>,
  lane: string,
  depth: number,
  scale: Scale,
  options: TimelineOptions,
  done: Set<string>,
): void {
  if (done.has(lane)) return;
  done.add(lane);
  const own = lanes.get(lane) ?? [];
  const forks = childLanes(lanes, lane);
  const runs = foldable(own);
  let at = 0;
  while (at < own.length) {
    const row = own[at];
    if (!row) break;
    addForks(out, lanes, forks, row.first, depth, scale, options, done);
    const size = runs.get(at) ?? 1;
    if (size >= FOLD_FROM) {
      addFolded(out, own.slice(at, at + size), depth, scale, options);
      at += size;
      continue;
    }
    out.push(treeRow(row, depth, scale, options));
    const below = [...lanes.keys()].filter(
      (each) => each.startsWith(`${row.path}/`) && !each.includes("~", row.path.length),
    );
    for (const each of below) addLane(out, lanes, each, depth + 1, scale, options, done);
    if (row.kind === "loop") addRounds(out, lanes, row, depth + 1, scale, options, done);
    at += 1;
  }
  addForks(out, lanes, forks, Number.POSITIVE_INFINITY, depth, scale, options, done);
}

/** Tasks that a lane started, in groups that began together: a gather is one bracket. */
function childLanes(lanes: Map<string, Row[]>, lane: string): { lanes: string[]; first: number }[] {
  const own = lanes.get(lane) ?? [];
  const children = [...lanes.entries()]
    .filter(([each]) => each.startsWith(`${lane}~`) && !each.slice(lane.length + 1).includes("~"))
    .map(([each, rows]) => ({
      lane: each,
      first: rows.reduce((least, row) => Math.min(least, row.first), Number.POSITIVE_INFINITY),
    }))
    .sort((a, b) => a.first - b.first);
  const groups = new Map<number, { lanes: string[]; first: number }>();
  for (const child of children) {
    const after = own.filter((row) => row.first < child.first).length;
    const group = groups.get(after) ?? { lanes: [], first: child.first };
    group.lanes.push(child.lane);
    groups.set(after, group);
  }
  return [...groups.values()];
}

function addForks(
  out: TreeRow[],
  lanes: Map<string, Row[]>,
  forks: { lanes: string[]; first: number }[],
  before: number,
  depth: number,
  scale: Scale,
  options: TimelineOptions,
  done: Set<string>,
): void {
  for (const fork of forks) {
    if (fork.first > before || fork.lanes.every((lane) => done.has(lane))) continue;
    const rows = fork.lanes.flatMap((lane) => lanes.get(lane) ?? []);
    const [from, to] = extent(rows, options.end);
    out.push({
      id: `together ${fork.first}`,
      depth,
      name: "together",
      status: worst(rows.map((row) => statusAt(row, options.seq))),
      row: null,
      bars: [{ from: scale.place(from), to: scale.place(to), kind: "br" }],
      density: [],
      tag: `${fork.lanes.length} lanes`,
      took: to - from,
      note: "",
      group: "",
      open: true,
      lane: "",
    });
    const start = out.length;
    for (const lane of fork.lanes) addLane(out, lanes, lane, depth + 1, scale, options, done);
    for (let index = start; index < out.length; index++) {
      const entry = out[index];
      if (entry) entry.lane = index === start ? "first" : index === out.length - 1 ? "last" : "mid";
    }
  }
}

/** What the rounds of a loop did, by name: a loop of 300 rounds has as many rows as one of three. */
function addRounds(
  out: TreeRow[],
  lanes: Map<string, Row[]>,
  loop: Row,
  depth: number,
  scale: Scale,
  options: TimelineOptions,
  done: Set<string>,
): void {
  const byName = new Map<string, Row[]>();
  for (const [lane, rows] of lanes) {
    if (!lane.startsWith(`${loop.path}[`)) continue;
    done.add(lane);
    for (const row of rows) {
      const alike = byName.get(row.name);
      if (alike) alike.push(row);
      else byName.set(row.name, [row]);
    }
  }
  for (const rows of byName.values()) {
    if (rows.length > 1) addFolded(out, rows, depth, scale, options);
    else if (rows[0]) out.push(treeRow(rows[0], depth, scale, options));
  }
}

/** Index -> length of a stretch of siblings with one name. */
function foldable(rows: Row[]): Map<number, number> {
  const runs = new Map<number, number>();
  let start = 0;
  for (let index = 1; index <= rows.length; index++) {
    if (index === rows.length || rows[index]?.name !== rows[start]?.name) {
      runs.set(start, index - start);
      start = index;
    }
  }
  return runs;
}

function addFolded(out: TreeRow[], rows: Row[], depth: number, scale: Scale, options: TimelineOptions): void {
  const first = rows[0];
  if (!first) return;
  const id = `fold ${first.path}`;
  const open = options.opened.has(id);
  const done = rows.filter((row) => statusAt(row, options.seq) === "completed").length;
  const [from, to] = extent(rows, options.end);
  out.push({
    id,
    depth,
    name: first.name,
    status: worst(rows.map((row) => statusAt(row, options.seq))),
    row: null,
    bars: [],
    density: densityOf(rows.flatMap((row) => barsOf(row, scale, options))),
    tag: `× ${rows.length}`,
    took: done === rows.length ? to - from : null,
    note: done === rows.length ? "" : `${done} / ${options.total?.(first.name) ?? rows.length}`,
    group: id,
    open,
    lane: "",
  });
  rows.forEach((row, index) => {
    if (!open && statusAt(row, options.seq) === "completed") return;
    const entry = treeRow(row, depth + 1, scale, options);
    out.push({ ...entry, name: `${row.name} ${index + 1}` });
  });
}

const BIN = 1 / 120; // of the width

/** Bars of many siblings as few: how much was going on in each slice of the width. */
export function densityOf(bars: Bar[]): Bin[] {
  const bins = new Map<number, { work: number; bad: boolean }>();
  for (const bar of bars) {
    if (bar.kind === "q") continue;
    const last = Math.max(Math.ceil(bar.to / BIN), Math.floor(bar.from / BIN) + 1);
    for (let at = Math.floor(bar.from / BIN); at < last; at++) {
      const inside = Math.min(bar.to, (at + 1) * BIN) - Math.max(bar.from, at * BIN);
      const bin = bins.get(at) ?? { work: 0, bad: false };
      bins.set(at, { work: bin.work + Math.max(inside, BIN / 20), bad: bin.bad || bar.kind === "bad" });
    }
  }
  const most = Math.max(...[...bins.values()].map((bin) => bin.work));
  return [...bins]
    .sort(([a], [b]) => a - b)
    .map(([at, bin]) => ({
      from: at * BIN,
      to: (at + 1) * BIN,
      share: Math.max(bin.work / most, 0.12),
      bad: bin.bad,
    }));
}

function treeRow(row: Row, depth: number, scale: Scale, options: TimelineOptions): TreeRow {
  const attempts = attemptsAt(row, options.seq);
  const count = row.counts.filter((each) => each.seq <= options.seq).at(-1);
  const tag = count?.total
    ? `${count.done} / ${count.total}`
    : attempts.length > 1
      ? `${attempts.length} attempts`
      : "";
  const [from, to] = extent([row], options.end);
  return {
    id: row.path,
    depth,
    name: row.name,
    status: statusAt(row, options.seq),
    row,
    bars: barsOf(row, scale, options),
    density: [],
    tag: row.kind === "wait" && row.what !== "step" ? row.what : row.kind === "timer" ? "sleep" : tag,
    took: attempts.length ? to - from : null,
    note:
      statusAt(row, options.seq) === "retrying" && row.retryAt
        ? `${attempts.length + 1} in ${Math.max(Math.ceil((row.retryAt - options.end) / 1000), 0)} s`
        : "",
    group: "",
    open: true,
    lane: "",
  };
}

function rootRow(model: RunModel, scale: Scale, options: TimelineOptions): TreeRow {
  const edges = [0, ...scale.gaps.flatMap((gap) => [gap.from, gap.to]), scale.place(options.end)];
  const bars: Bar[] = [];
  for (let index = 0; index + 1 < edges.length; index += 2) {
    bars.push({ from: edges[index] ?? 0, to: edges[index + 1] ?? 0, kind: "root" });
  }
  const idle = scale.gaps.reduce((sum, gap) => sum + gap.ms, 0);
  return {
    id: "",
    depth: 0,
    name: options.name,
    status: "idle",
    row: null,
    bars,
    density: [],
    tag: "",
    took: options.end - model.begin - idle,
    note: "",
    group: "",
    open: true,
    lane: "",
  };
}

const BAR: Partial<Record<StepStatus, BarKind>> = {
  completed: "ok",
  running: "run",
  pending: "q",
  retrying: "bad",
  failed: "bad",
  timed_out: "bad",
  suspended: "wait",
  cancelled: "off",
};

function barsOf(row: Row, scale: Scale, options: TimelineOptions): Bar[] {
  const isWait = row.kind === "wait" || row.kind === "timer";
  return attemptsAt(row, options.seq).flatMap((each) => {
    const over = each.seqEnd !== null && each.seqEnd <= options.seq;
    const end = over ? (each.end ?? options.end) : options.end;
    const bars: Bar[] = [];
    if (each.start > each.due) {
      bars.push({ from: scale.place(each.due), to: scale.place(Math.min(each.start, end)), kind: "q" });
    }
    const kind = isWait
      ? over && each.status === "timed_out"
        ? "bad"
        : "wait"
      : over
        ? (BAR[each.status] ?? "ok")
        : "run";
    bars.push({ from: scale.place(each.start), to: scale.place(Math.max(end, each.start)), kind });
    return bars;
  });
}

function extent(rows: Row[], now: number): [number, number] {
  let from = Number.POSITIVE_INFINITY;
  let to = Number.NEGATIVE_INFINITY;
  for (const row of rows)
    for (const each of row.attempts) {
      from = Math.min(from, each.start);
      to = Math.max(to, Math.min(each.end ?? now, now));
    }
  return Number.isFinite(from) ? [from, Math.max(to, from)] : [now, now];
}

const ORDER: StepStatus[] = [
  "failed",
  "timed_out",
  "retrying",
  "running",
  "suspended",
  "pending",
  "cancelled",
];

/** The status of a group: the one that needs a look first. */
export function worst(statuses: StepStatus[]): StepStatus {
  return (
    ORDER.find((status) => statuses.includes(status)) ??
    (statuses.every((each) => each === "skipped") ? "skipped" : "completed")
  );
}

function depthOf(lane: string): number {
  return lane.split(/[/~]/).length;
}
