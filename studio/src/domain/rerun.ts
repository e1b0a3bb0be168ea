import { graphDrawing, nodeOf } from "./graph";
import type { Row, RunModel } from "./run";

/** What a rerun from a step takes from history, and what it runs again. */
export interface Repeated {
  kept: string[];
  again: string[];
  more: string; // what the names do not say
}

export function repeated(model: RunModel, step: Row, definition: unknown): Repeated {
  if (definition) return inGraph(model, step, definition);
  const done = model.rows.filter((row) => row.result !== null && row.kind !== "timer");
  return {
    kept: names(done.filter((row) => row.first < step.first)),
    again: [step.name, ...names(done.filter((row) => row.first > step.first))],
    more: "and what the code does after them",
  };
}

/** In a graph the node and everything that follows from it run again; its other branches are kept. */
function inGraph(model: RunModel, step: Row, definition: unknown): Repeated {
  const drawing = graphDrawing(definition);
  const again = new Set([nodeOf(step.path)]);
  const parents = new Map(drawing.nodes.map((node) => [node.id, node.parent]));
  for (let before = 0; before !== again.size; ) {
    before = again.size;
    for (const edge of drawing.edges) if (again.has(edge.source)) again.add(edge.target);
    for (const [id, parent] of parents) if (parent && again.has(parent)) again.add(id);
  }
  const work = drawing.nodes.filter((node) => !["start", "end", "fork", "merge"].includes(node.type));
  const reached = new Set(model.rows.filter((row) => row.result !== null).map((row) => nodeOf(row.path)));
  return {
    kept: work.filter((node) => reached.has(node.id) && !again.has(node.id)).map((node) => node.id),
    again: work.filter((node) => again.has(node.id)).map((node) => node.id),
    more: "",
  };
}

function names(rows: Row[]): string[] {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(row.name, (counts.get(row.name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count > 1 ? `${name} × ${count}` : name));
}
