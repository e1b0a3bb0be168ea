import { describe, expect, it } from "vitest";
import { countOf, definitionDiff, diffLines } from "./definitionDiff";

const node = (id: string, data: object = {}, x = 0) => ({ id, type: "call", data, position: { x, y: 0 } });
const edge = (source: string, target: string, sourceHandle = "out") => ({ source, target, sourceHandle });

const OLD = {
  nodes: [node("start"), node("charge", { timeout: 60, retry: { maxAttempts: 3 } }), node("mail")],
  edges: [edge("start", "charge"), edge("charge", "mail", "error")],
  settings: { queue: "default" },
};
const NEW = {
  nodes: [node("start", {}, 40), node("charge", { timeout: 20, retry: { maxAttempts: 3 } }), node("ticket")],
  edges: [edge("start", "charge"), edge("charge", "ticket", "error")],
  settings: { queue: "fast" },
};

describe("two versions of a graph", () => {
  const diff = definitionDiff("graph", OLD, NEW);

  it("differ by node", () => {
    expect(Object.fromEntries(diff.nodes)).toEqual({
      start: "same",
      charge: "changed",
      mail: "removed",
      ticket: "added",
    });
    expect([countOf(diff, "added"), countOf(diff, "removed")]).toEqual([1, 1]);
  });

  it("say apart which nodes were only moved", () => {
    expect(diff.moved).toEqual(["start"]);
  });

  it("are drawn in one picture, with what was removed", () => {
    expect(diff.drawing.nodes.map((each) => each.id)).toEqual(["start", "charge", "ticket", "mail"]);
    expect([...diff.edges.values()].sort()).toEqual(["added", "removed", "same"]);
  });

  it("differ by field", () => {
    const lines = diffLines(diff).map((line) => `${line.kind} ${line.text}`);
    expect(lines.slice(0, 3)).toEqual([
      "head nodes / charge / data",
      'del "timeout": 60',
      'add "timeout": 20',
    ]);
    expect(lines).toContain("head settings / settings");
    expect(lines).toContain('add "queue": "fast"');
  });
});

describe("two versions of a machine", () => {
  const old = {
    start: "draft",
    places: [{ name: "draft", kind: "start" }],
    transitions: [{ name: "submit", sources: ["draft"], target: "done", wait: false }],
  };
  const value = {
    start: "draft",
    places: [
      { name: "draft", kind: "start" },
      { name: "done", kind: "end" },
    ],
    transitions: [{ name: "submit", sources: ["draft"], target: "done", wait: true }],
  };

  it("differ by place and transition", () => {
    const diff = definitionDiff("machine", old, value);
    expect(diff.parts.map((part) => `${part.group} ${part.name} ${part.change}`)).toEqual([
      "places done added",
      "transitions submit changed",
    ]);
  });
});

it("the same version twice has no differences", () => {
  expect(definitionDiff("graph", OLD, OLD).parts).toEqual([]);
  expect(definitionDiff("function", { name: "f" }, { name: "f" }).parts).toEqual([]);
});
