import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { answer } from "./answer";
import { errorKind, fieldOf } from "./errors";
import { usageWords } from "./eventKinds";
import { besideTheirSource } from "./graph";
import { repeated } from "./rerun";
import { Fold, fold, placeAt, type RunEvent, runStatusAt, statusAt, usedAt } from "./run";
import { densityOf, timeline } from "./timeline";

/** Runs that the engine made, with what it says of them after every event (tools/recorded_runs.py). */
interface Recorded {
  events: (Omit<RunEvent, "at"> & { at: string })[];
  used: { input: number; output: number; cost: number }; // what the row of the run says
  moments: { seq: number; ended: string; steps: Record<string, string>; waits: string[]; place: string }[];
}

function recorded(name: string): Recorded & { run: RunEvent[] } {
  const file = JSON.parse(
    readFileSync(new URL(`../../recorded/${name}.json`, import.meta.url), "utf8"),
  ) as Recorded;
  return { ...file, run: file.events.map((event) => ({ ...event, at: Date.parse(event.at) })) };
}

const NAMES = ["function", "failed", "machine", "graph", "loop"] as const;

describe.each(NAMES)("a recorded %s run", (name) => {
  const { run, moments } = recorded(name);
  const model = fold(run);

  test("has the engine's status of every step after every event", () => {
    for (const moment of moments) {
      for (const [path, status] of Object.entries(moment.steps)) {
        const row = model.byPath.get(path);
        expect(row && statusAt(row, moment.seq), `${path} at seq ${moment.seq}`).toBe(status);
      }
    }
  });

  test("waits where the engine says that it waits", () => {
    for (const moment of moments.filter((each) => !each.ended)) {
      const waiting = model.rows
        .filter((row) => statusAt(row, moment.seq) === "suspended")
        .map((row) => row.path);
      expect(waiting.sort(), `at seq ${moment.seq}`).toEqual(moment.waits);
    }
  });

  test("ends when the engine says so, and is at its place", () => {
    for (const moment of moments) {
      const status = runStatusAt(model, moment.seq);
      if (moment.ended) expect(status).toBe(moment.ended);
      else expect(["pending", "running", "suspended"]).toContain(status);
      if (name === "machine") expect(placeAt(model, moment.seq)?.place ?? "").toBe(moment.place);
    }
  });

  test("is the same when it is folded up to a seq or at it", () => {
    for (const moment of moments) {
      const short = fold(run.slice(0, moment.seq));
      for (const row of short.rows) {
        const long = model.byPath.get(row.path);
        expect(long && statusAt(long, moment.seq), `${row.path} at ${moment.seq}`).toBe(
          statusAt(row, moment.seq),
        );
      }
    }
  });

  test("is the same when it is folded at once or a few events at a time", () => {
    for (const size of [1, 3]) {
      const parts = new Fold();
      for (let at = 0; at < run.length; at += size) parts.add(run.slice(at, at + size));
      expect(parts.add([])).toEqual(model);
    }
  });

  test("has bars within the timeline, and none before their time", () => {
    for (const seq of [1, Math.ceil(model.last / 2), model.last]) {
      const end = run.findLast((event) => event.seq <= seq)?.at ?? 0;
      const line = timeline(model, { seq, end, collapse: true, opened: new Set(), name });
      for (const row of line.rows) {
        for (const bar of row.bars) {
          expect(bar.from).toBeGreaterThanOrEqual(0);
          expect(bar.to).toBeLessThanOrEqual(1);
          expect(bar.to).toBeGreaterThanOrEqual(bar.from);
        }
      }
    }
  });
});

test("the timeline of a loop has one row for each of its steps, however many rounds there were", () => {
  const { run } = recorded("loop");
  const model = fold(run);
  const options = { seq: model.last, end: model.lastAt, collapse: true, name: "triage" };
  const closed = timeline(model, { ...options, opened: new Set<string>() }).rows;
  const rounds = closed.find((row) => row.name === "ask");

  expect(rounds).toMatchObject({ tag: "× 3", depth: 2, open: false });
  const opened = timeline(model, { ...options, opened: new Set([rounds?.group ?? ""]) }).rows;
  expect(opened.filter((row) => row.name.startsWith("ask ")).map((row) => row.name)).toEqual([
    "ask 1",
    "ask 2",
    "ask 3",
  ]);
});

test("a failed run says where, how often and why", () => {
  const { run } = recorded("failed");
  const model = fold(run);
  const error = model.ending?.error ?? null;
  const parts = answer(model, { status: "failed", seq: model.last, now: 0, why: "", output: null, error });

  expect(
    parts
      .map((part) => (typeof part === "string" ? part : "code" in part ? part.code : part.strong))
      .join(""),
  ).toBe("Failed at decline after 3 attempts: RuntimeError: card declined");
});

test("what models used is counted as the engine counts it, and a loop by its items", () => {
  const { run, used } = recorded("loop");
  const model = fold(run);
  const asked = model.rows.filter((row) => row.name === "ask");
  const loop = model.byPath.get("0/each");

  expect(usedAt(model.rows, model.last)).toEqual(used);
  expect(used).toEqual({ input: 80, output: 8, cost: 1 });
  expect(usageWords(used)).toBe("88 tokens (80 in, 8 out), cost 1");
  expect(asked.map((row) => row.details.at(-1)?.values)).toContainEqual({ model: "m", item: 2 });
  expect(loop?.counts.at(-1)).toMatchObject({ done: 3, total: 3 });
  expect(model.rows.map((row) => row.path).filter((path) => path.endsWith("]"))).toEqual([]);
});

test("a target of an error stands beside its source only if it has no other way in", () => {
  const node = (id: string) => ({ id, type: "call", parent: "", name: id, rule: "" });
  const edge = (source: string, target: string, handle = "out") => ({
    id: `${source} ${target}`,
    source,
    target,
    handle,
    label: handle,
  });
  const nodes = ["start", "book", "ticket", "done"].map(node);
  const edges = [edge("start", "book"), edge("book", "ticket", "error"), edge("book", "done")];

  expect([...besideTheirSource({ nodes, edges })]).toEqual([["book ticket", "start"]]);
  expect(besideTheirSource({ nodes, edges: [...edges, edge("start", "ticket")] }).size).toBe(0);
});

test("lanes that began together are one bracket, and many siblings are one row", () => {
  const { run } = recorded("function");
  const model = fold(run);
  const line = timeline(model, {
    seq: model.last,
    end: model.lastAt,
    collapse: true,
    opened: new Set(),
    name: "report",
  });

  expect(line.rows.map((row) => `${row.name} ${row.tag}`.trim())).toEqual([
    "report",
    "load",
    "together 3 lanes",
    "count",
    "count",
    "count",
    "sign approval",
    "sleep sleep",
    "count × 10",
  ]);
});

test("a lost worker is remembered, and what was done before is history", () => {
  const at = (seq: number, kind: string, path: string, data: Record<string, unknown>): RunEvent => ({
    seq,
    at: 1000 * seq,
    kind,
    path,
    attempt: path ? 1 : 0,
    data,
  });
  const model = fold([
    at(1, "accepted", "", {}),
    at(2, "claimed", "", { worker: "a" }),
    at(3, "step_completed", "0/one#1", { result: 1 }),
    at(4, "lease_lost", "", { lease: "x" }),
    at(5, "claimed", "", { worker: "b" }),
    at(6, "step_completed", "0/two#1", { result: 2 }),
  ]);
  const line = timeline(model, { seq: 6, end: 6000, collapse: false, opened: new Set(), name: "r" });

  expect(line.crashes).toMatchObject([{ lost: "a", worker: "b" }]);
});

test("many siblings are as many slices as the width has, and failures stay in sight", () => {
  const bars = Array.from({ length: 3000 }, (_, index) => ({
    from: index / 3000,
    to: (index + 1) / 3000,
    kind: index === 1500 ? ("bad" as const) : ("ok" as const),
  }));

  const bins = densityOf(bars);

  expect(bins.length).toBeLessThanOrEqual(121);
  expect(bins.filter((bin) => bin.bad)).toHaveLength(1);
  expect(Math.max(...bins.map((bin) => bin.share))).toBe(1);
});

test("a rerun of a function keeps what came before the step", () => {
  const model = fold([]);
  const row = (name: string, first: number) => ({ name, first, result: first, kind: "step" }) as never;
  model.rows.push(row("load", 1), row("load", 2), row("charge", 3), row("ship", 4));

  expect(repeated(model, model.rows[2] as never, null)).toEqual({
    kept: ["load × 2"],
    again: ["charge", "ship"],
    more: "and what the code does after them",
  });
});

test("a rerun in a graph repeats what follows from the node, and keeps other branches", () => {
  const model = fold([]);
  for (const path of ["0/load", "0/charge", "0/label"]) {
    model.rows.push({ path, name: path.slice(2), first: 1, result: 1, kind: "step" } as never);
  }
  const node = (id: string) => ({ id, type: "call" });
  const graph = {
    nodes: ["load", "charge", "label", "ship"].map(node),
    edges: [
      { source: "load", target: "charge" },
      { source: "load", target: "label" },
      { source: "charge", target: "ship" },
    ],
  };

  expect(repeated(model, model.rows[1] as never, graph)).toEqual({
    kept: ["load", "label"],
    again: ["charge", "ship"],
    more: "",
  });
});

test.each([
  ["NODE_CONFIG", "Fix your node"],
  ["EXPRESSION_ERROR", "Fix your node"],
  ["INVALID_DATA", "Fix your node"],
  ["ERROR", "Something went wrong"],
  ["HTTP_503", "Something went wrong"],
])("%s is %s", (code, kind) => {
  expect(errorKind({ code, message: "" })).toBe(kind);
});

test("a problem names the field of the node", () => {
  expect(fieldOf({ code: "NODE_CONFIG", message: "url: unknown variable ctx.ordr" })).toBe("url");
  expect(fieldOf({ code: "NODE_CONFIG", message: "it does not fit" })).toBe("");
});
