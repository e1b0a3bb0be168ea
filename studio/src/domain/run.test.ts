import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { answer } from "./answer";
import { fold, placeAt, type RunEvent, runStatusAt, statusAt } from "./run";
import { joined, timeline } from "./timeline";

/** Runs that the engine made, with what it says of them after every event (tools/recorded_runs.py). */
interface Recorded {
  events: (Omit<RunEvent, "at"> & { at: string })[];
  moments: { seq: number; ended: string; steps: Record<string, string>; waits: string[]; place: string }[];
}

function recorded(name: string): Recorded & { run: RunEvent[] } {
  const file = JSON.parse(
    readFileSync(new URL(`../../recorded/${name}.json`, import.meta.url), "utf8"),
  ) as Recorded;
  return { ...file, run: file.events.map((event) => ({ ...event, at: Date.parse(event.at) })) };
}

const NAMES = ["function", "failed", "machine", "graph"] as const;

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

test("thousands of siblings are few bars", () => {
  const bars = Array.from({ length: 10_000 }, (_, index) => ({
    from: index / 10_000,
    to: (index + 0.9) / 10_000,
    kind: index === 5_000 ? ("bad" as const) : ("ok" as const),
  }));

  expect(joined(bars).map((bar) => bar.kind)).toEqual(["ok", "bad", "ok"]);
});
