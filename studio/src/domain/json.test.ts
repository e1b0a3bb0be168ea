import { expect, test } from "vitest";
import { pretty } from "./json";

test("what is short stands in one line, and what is not is opened", () => {
  const orders = [
    { id: "8601", total: 4150 },
    { id: "8602", total: 1299 },
  ];

  expect(pretty({ day: "2026-11-16", orders }).split("\n")).toEqual([
    "{",
    '  "day": "2026-11-16",',
    '  "orders": [',
    '    {"id": "8601", "total": 4150},',
    '    {"id": "8602", "total": 1299}',
    "  ]",
    "}",
  ]);
});

test("many numbers stand beside each other", () => {
  const lines = pretty({ parcels: Array.from({ length: 80 }, (_, index) => index) }).split("\n");

  expect(lines.length).toBeLessThan(12);
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(66);
});

test.each([
  null,
  "text",
  12.5,
  [],
  {},
  [[], {}, [1, [2, "a, b"]]],
  { a: { b: { c: ["x".repeat(100), "y"] } }, "": null, "\u2028": "\u2029" },
  [{ long: "z".repeat(90), more: [1, 2, 3] }, "q".repeat(70)],
])("says the same as JSON does: %j", (value) => {
  expect(JSON.parse(pretty(value))).toEqual(value);
});
