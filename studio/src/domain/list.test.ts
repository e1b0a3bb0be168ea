import { describe, expect, test } from "vitest";
import { chips, matches, NO_FILTERS, readFilters, typed, writeFilters } from "./filters";
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
    const run = { status: "failed" as const, workflow: "order", key: "1" };

    expect(matches(run, NO_FILTERS)).toBe(true);
    expect(matches(run, { ...NO_FILTERS, status: ["completed"] })).toBe(false);
    expect(matches(run, { ...NO_FILTERS, q: "text" })).toBeNull();
  });
});

describe("where a run is, and why", () => {
  test.each([
    [
      "failed",
      "0/charge#1",
      { message: "0/charge#1 failed: RuntimeError: declined", type: "RuntimeError", path: "0/charge#1" },
      { place: "charge", words: "RuntimeError: declined" },
    ],
    ["suspended", "waiting for approval sign", null, { place: "sign", words: "waits for an approval" }],
    ["suspended", "at review: waiting for approve", null, { place: "review", words: "waiting for approve" }],
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
