import { type Difference, differences } from "./differences";
import { chartDrawing, type Drawing, type DrawnEdge, graphDrawing } from "./graph";

/** What differs between two versions of a workflow: by node or transition, then by field. Places on a canvas count apart. */

export type Change = "added" | "removed" | "changed" | "same";

export interface PartDiff {
  group: string; // nodes, edges, places, transitions, settings …
  name: string;
  change: Change;
  fields: Difference[]; // of a changed part
  old: unknown;
  value: unknown;
}

export interface DefinitionDiff {
  drawing: Drawing; // the new one, and what was removed
  nodes: Map<string, Change>;
  edges: Map<string, Change>;
  parts: PartDiff[]; // without those that are the same
  moved: string[]; // nodes that only stand elsewhere
}

type Part = Record<string, unknown>;
const GROUPS = ["nodes", "edges", "triggers", "places", "transitions"];
const PLACE = "position";

export function definitionDiff(kind: string, old: unknown, value: unknown): DefinitionDiff {
  const draw = kind === "machine" ? chartDrawing : graphDrawing;
  const [before, after] = [draw(old), draw(value)];
  const groups = GROUPS.map((group) => partsDiff(group, old, value));
  const parts = groups.flatMap((group) => group.parts);
  const settings = settingsDiff(old, value);
  if (settings) parts.push(settings);
  const changes = new Map(
    parts
      .filter((part) => part.group === "nodes" || part.group === "places")
      .map((part) => [part.name, part.change]),
  );
  const nodes = new Map<string, Change>();
  for (const node of [...before.nodes, ...after.nodes]) nodes.set(node.id, changes.get(node.id) ?? "same");
  const drawing = {
    nodes: [
      ...after.nodes,
      ...before.nodes.filter((node) => !after.nodes.some((each) => each.id === node.id)),
    ],
    edges: [] as DrawnEdge[],
  };
  const edges = new Map<string, Change>();
  const [oldEdges, newEdges] = [byEnds(before), byEnds(after)];
  for (const [ends, edge] of new Map([...oldEdges, ...newEdges])) {
    const drawn = { ...edge, id: ends };
    drawing.edges.push(drawn);
    edges.set(ends, oldEdges.has(ends) ? (newEdges.has(ends) ? "same" : "removed") : "added");
  }
  return { drawing, nodes, edges, parts, moved: groups.flatMap((group) => group.moved) };
}

/** How many of a kind there are, for the chips. */
export function countOf(diff: DefinitionDiff, change: Change): number {
  return diff.parts.filter((part) => part.change === change && part.group !== "edges").length;
}

function byEnds(drawing: Drawing): Map<string, DrawnEdge> {
  return new Map(
    drawing.edges.map((edge) => [`${edge.source} ${edge.label || edge.handle} ${edge.target}`, edge]),
  );
}

function partsDiff(group: string, old: unknown, value: unknown): { parts: PartDiff[]; moved: string[] } {
  const [before, after] = [named(group, old), named(group, value)];
  const parts: PartDiff[] = [];
  const moved: string[] = [];
  for (const name of new Set([...before.keys(), ...after.keys()])) {
    const [was, is] = [before.get(name), after.get(name)];
    const part = { group, name, old: was, value: is, fields: [] };
    if (!was) parts.push({ ...part, change: "added" });
    else if (!is) parts.push({ ...part, change: "removed" });
    else {
      const fields = differences(meaning(was), meaning(is));
      if (fields.length) parts.push({ ...part, change: "changed", fields });
      else if (JSON.stringify(was[PLACE]) !== JSON.stringify(is[PLACE])) moved.push(name);
    }
  }
  return { parts, moved };
}

/** Everything that is not in a list of parts: settings of a graph, the signature of a function. */
function settingsDiff(old: unknown, value: unknown): PartDiff | null {
  const [was, is] = [rest(old), rest(value)];
  const fields = differences(was, is);
  return fields.length
    ? { group: "settings", name: "", change: "changed", fields, old: was, value: is }
    : null;
}

function rest(definition: unknown): Part {
  if (definition === null || typeof definition !== "object") return { value: definition };
  return Object.fromEntries(
    Object.entries(definition).filter(([name, value]) => !GROUPS.includes(name) || !Array.isArray(value)),
  );
}

function meaning(part: Part): Part {
  return Object.fromEntries(Object.entries(part).filter(([name]) => name !== PLACE));
}

function named(group: string, definition: unknown): Map<string, Part> {
  const list = (definition as Record<string, unknown> | null)?.[group];
  if (!Array.isArray(list)) return new Map();
  return new Map((list as Part[]).map((part) => [nameOf(group, part), part]));
}

function nameOf(group: string, part: Part): string {
  if (group === "edges") {
    const handle = part.sourceHandle ? ` (${part.sourceHandle})` : "";
    return `${part.source}${handle} → ${part.target}`;
  }
  return String(part.id ?? part.name ?? "");
}

export interface DiffLine {
  kind: "head" | "del" | "add";
  text: string;
}

/** The parts as lines of JSON: `-` is the old version, `+` the new one. */
export function diffLines(diff: DefinitionDiff): DiffLine[] {
  const lines: DiffLine[] = [];
  for (const part of diff.parts) {
    const head = [part.group, part.name].filter(Boolean).join(" / ");
    if (part.change !== "changed") {
      lines.push({ kind: "head", text: head });
      const kind = part.change === "removed" ? ("del" as const) : ("add" as const);
      lines.push({ kind, text: json(part.change === "removed" ? part.old : part.value) });
      continue;
    }
    for (const field of part.fields) {
      const at = field.path.lastIndexOf(".");
      const inside = field.path.slice(0, Math.max(at, 0)).replaceAll(".", " / ");
      const where = [head, inside].filter(Boolean).join(" / ");
      if (lines.findLast((line) => line.kind === "head")?.text !== where)
        lines.push({ kind: "head", text: where });
      const name = JSON.stringify(field.path.slice(at + 1));
      if (field.kind !== "added") lines.push({ kind: "del", text: `${name}: ${json(field.old)}` });
      if (field.kind !== "removed") lines.push({ kind: "add", text: `${name}: ${json(field.value)}` });
    }
  }
  return lines;
}

const LINE_MAX = 400;

function json(value: unknown): string {
  const text = JSON.stringify(value) ?? "null";
  return text.length > LINE_MAX ? `${text.slice(0, LINE_MAX)}…` : text;
}
