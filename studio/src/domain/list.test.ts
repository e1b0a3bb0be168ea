import { describe, expect, test } from "vitest";
import {
  bulkBody,
  chips,
  countable,
  matches,
  moment,
  NO_FILTERS,
  readFilters,
  typed,
  typedProblem,
  writeFilters,
} from "./filters";
import { type Bucket, moved, ordered, segments, totals } from "./histogram";
import { parsePath } from "./path";
import { ago, coarse, duration } from "./time";
import { where } from "./where";

describe("filters", () => {
  test("an address and its filters are the same thing", () => {
    const filters = {
      ...NO_FILTERS,
      status: ["suspended", "failed"] as const,
      workflow: "order",
      key: "8841",
      q: "a b",
    };

    expect(readFilters(writeFilters({ ...filters, status: [...filters.status] }))).toEqual({
      ...filters,
      status: [...filters.status],
    });
    expect(writeFilters(NO_FILTERS)).toEqual({});
  });

  test("typed words become filters, the rest is text", () => {
    const filters = typed("status:waiting,failed workflow:order  late parcel", NO_FILTERS);

    expect(filters).toEqual({
      ...NO_FILTERS,
      status: ["suspended", "failed"],
      workflow: "order",
      q: "late parcel",
    });
    expect(chips(filters).map((chip) => chip.name)).toEqual(["status", "status", "workflow", "q"]);
    expect(chips(filters)[0]?.without.status).toEqual(["failed"]);
  });

  test("a run that arrives is compared with the filters", () => {
    const run = { status: "failed" as const, workflow: "order", version: "1", key: "1", trigger: "api" };

    expect(matches(run, NO_FILTERS)).toBe(true);
    expect(matches(run, { ...NO_FILTERS, status: ["completed"] })).toBe(false);
    expect(matches(run, { ...NO_FILTERS, q: "text" })).toBeNull();
  });
});

describe("what is typed", () => {
  test("quotes keep words together", () => {
    expect(typed('error:"card declined" version:7', NO_FILTERS)).toEqual({
      ...NO_FILTERS,
      error: "card declined",
      version: "7",
    });
  });

  test.each([
    ["wrkflow:x", "There is no filter wrkflow. Did you mean workflow?"],
    ["statsu:failed", "Did you mean status?"],
    ["status:fine", "There is no status fine"],
    ["tag:shop", "name=value"],
    ["since:yesterday", "24h"],
    ["status:failed workflow:order", ""],
    ["http 402", ""],
  ])("%s: %s", (text, words) => {
    if (words) expect(typedProblem(text)).toContain(words);
    else expect(typedProblem(text)).toBe("");
  });

  test("a time is so long ago, or a moment", () => {
    const now = Date.UTC(2026, 10, 18, 12, 0, 30);

    expect(moment("24h", now)).toBe("2026-11-17T12:00:00.000Z");
    expect(moment("2026-11-18T09:00:00Z", now)).toBe("2026-11-18T09:00:00.000Z");
    expect(moment("soon", now)).toBe("");
  });
});

describe("bulk jobs", () => {
  test("all matching never means all runs", () => {
    expect(bulkBody(NO_FILTERS, "retry", 0)?.status).toEqual(["failed", "timed_out"]);
    expect(bulkBody({ ...NO_FILTERS, status: ["completed", "running"] }, "cancel", 0)?.status).toEqual([
      "running",
    ]);
  });

  test("what a job cannot find again is not offered", () => {
    expect(bulkBody({ ...NO_FILTERS, q: "abc" }, "retry", 0)).toBeNull();
    expect(countable({ ...NO_FILTERS, workflow: "order", since: "1h" })).toBe(true);
    expect(countable({ ...NO_FILTERS, tag: "shop=berlin" })).toBe(false);
  });
});

describe("histogram", () => {
  const buckets: Bucket[] = [
    { start: 0, statuses: { completed: 3, failed: 1 } },
    { start: 10, statuses: { timed_out: 2 } },
  ];

  test("what went well is below, what failed above it", () => {
    expect(segments(buckets[0] as Bucket, 4)).toEqual([
      { kind: "ok", from: 0, to: 0.75 },
      { kind: "fail", from: 0.75, to: 1 },
    ]);
    expect(totals(buckets)).toEqual({ completed: 3, failed: 1, timed_out: 2 });
  });

  test("arrows move a range, Shift widens it, and it stays inside", () => {
    expect(moved({ first: 3, last: 4 }, -1, false, 5)).toEqual({ first: 2, last: 3 });
    expect(moved({ first: 3, last: 4 }, 1, false, 5)).toEqual({ first: 3, last: 4 });
    expect(moved({ first: 2, last: 2 }, 1, true, 5)).toEqual({ first: 2, last: 3 });
    expect(ordered(9, -2, 5)).toEqual({ first: 0, last: 4 });
  });
});

describe("where a run is, and why", () => {
  test("a running run has its step, its progress and its next attempt", () => {
    const at = (position: object) =>
      where({ status: "running", where: "", error: null, output: null, position: position as never });

    expect(at({ path: "0/render#3", attempt: 1, done: 46, total: 312 })).toEqual({
      place: "render",
      words: "",
      done: 46,
      total: 312,
    });
    expect(
      at({ path: "0/sync#1", attempt: 2, retry_at: "1970-01-01T00:00:04Z", error: "ConnectionError" }),
    ).toEqual({ place: "sync", words: "ConnectionError", attempt: 2, retryAt: 4000 });
  });

  test.each([
    [
      "failed",
      "0/charge#1",
      { message: "0/charge#1 failed: RuntimeError: declined", type: "RuntimeError", path: "0/charge#1" },
      { place: "charge", words: "RuntimeError: declined" },
    ],
    ["suspended", "waiting for approval sign", null, { place: "sign", words: "waits for an approval" }],
    ["suspended", "at review: waiting for approve", null, { place: "review", words: "waiting for approve" }],
    [
      "suspended",
      "at review: decide, waiting for approval finance",
      null,
      { place: "review", words: "decide waits for approval finance" },
    ],
    ["running", "0/render_page#12", null, { place: "render_page", words: "" }],
  ] as const)("%s at %s", (status, text, error, expected) => {
    expect(where({ status, where: text, error, output: null })).toEqual(expected);
  });

  test("a completed run shows its result in one line", () => {
    expect(where({ status: "completed", where: "", error: null, output: { pages: 3 } }).words).toBe(
      '{"pages":3}',
    );
  });
});

test("paths name the task, the kind of wait and the count", () => {
  expect(parsePath("0~3/totals#2")).toEqual({ lane: "0~3", what: "step", name: "totals", count: 2 });
  expect(parsePath("0/approval:sign#1")).toEqual({ lane: "0", what: "approval", name: "sign", count: 1 });
  expect(parsePath("0/submit@4").count).toBe(4);
});

test.each([
  [340, "340 ms"],
  [8_100, "8.1 s"],
  [59_990, "1 m"],
  [774_000, "12 m 54 s"],
  [4_320_000, "1 h 12 m"],
  [187_200_000, "2 d 4 h"],
])("%d ms is %s", (ms, words) => {
  expect(duration(ms)).toBe(words);
});

test("times are relative up to a day", () => {
  const now = Date.UTC(2026, 10, 18, 12);

  expect(ago(now - 500, now, "UTC")).toBe("now");
  expect(ago(now - 130_000, now, "UTC")).toBe("2 m ago");
  expect(ago(now + 10_800_000, now, "UTC")).toBe("in 3 h");
  expect(ago(now - 15 * 86_400_000, now, "UTC")).toBe("3 Nov");
  expect(coarse(60_000)).toBe("1 m");
});
