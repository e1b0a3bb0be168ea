import ELK, { type ElkExtendedEdge, type ElkNode } from "elkjs/lib/elk-api";
import workerAddress from "elkjs/lib/elk-worker.min.js?url";
import type { Drawing } from "../domain/graph";

/** Positions of a drawing. ELK works in a worker of its own, so a large graph never blocks the page. */

export interface Point {
  x: number;
  y: number;
}

export interface PlacedNode extends Point {
  id: string;
  width: number;
  height: number;
  parent: string;
}

export interface PlacedEdge {
  id: string;
  points: Point[];
  label: Point | null; // its middle
}

export interface Layout {
  nodes: Map<string, PlacedNode>;
  edges: Map<string, PlacedEdge>;
}

export type SizeOf = (id: string) => { width: number; height: number };

let elk: InstanceType<typeof ELK> | null = null;
const kept = new Map<string, Promise<Layout>>();

/** Lay a drawing out, once for each key: definitions do not change. */
export function layout(key: string, drawing: Drawing, sizeOf: SizeOf): Promise<Layout> {
  const known = kept.get(key);
  if (known) return known;
  const placed = place(drawing, sizeOf);
  kept.set(key, placed);
  placed.catch(() => kept.delete(key));
  return placed;
}

const OPTIONS = {
  "elk.algorithm": "layered",
  "elk.direction": "RIGHT",
  "elk.edgeRouting": "ORTHOGONAL",
  "elk.hierarchyHandling": "INCLUDE_CHILDREN",
  "elk.layered.spacing.nodeNodeBetweenLayers": "26",
  "elk.layered.spacing.edgeNodeBetweenLayers": "12",
  "elk.spacing.nodeNode": "30",
  "elk.spacing.edgeNode": "18",
  "elk.spacing.edgeEdge": "14",
  "elk.spacing.edgeLabel": "4",
  "elk.edgeLabels.inline": "true",
  "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
  "elk.layered.nodePlacement.strategy": "NETWORK_SIMPLEX",
};

async function place(drawing: Drawing, sizeOf: SizeOf): Promise<Layout> {
  elk ??= new ELK({ workerFactory: () => new Worker(workerAddress) });
  const byParent = new Map<string, string[]>();
  for (const node of drawing.nodes) {
    byParent.set(node.parent, [...(byParent.get(node.parent) ?? []), node.id]);
  }
  const built = (id: string): ElkNode => {
    const children = byParent.get(id) ?? [];
    if (!children.length) return { id, ...sizeOf(id) };
    return {
      id,
      children: children.map(built),
      layoutOptions: { "elk.padding": "[top=44,left=16,bottom=16,right=16]" },
    };
  };
  const edges: ElkExtendedEdge[] = drawing.edges.map((edge) => ({
    id: edge.id,
    sources: [edge.source],
    targets: [edge.target],
    labels: edge.label
      ? [{ id: `${edge.id} label`, text: edge.label, width: edge.label.length * 6 + 14, height: 18 }]
      : [],
  }));
  const result = await elk.layout({
    id: "root",
    layoutOptions: OPTIONS,
    children: (byParent.get("") ?? []).map(built),
    edges,
  });
  return read(result, drawing);
}

function read(root: ElkNode, drawing: Drawing): Layout {
  const nodes = new Map<string, PlacedNode>();
  const origin = new Map<string, Point>([["root", { x: 0, y: 0 }]]);
  const walk = (node: ElkNode, parent: string, at: Point) => {
    for (const child of node.children ?? []) {
      const x = child.x ?? 0;
      const y = child.y ?? 0;
      nodes.set(child.id, { id: child.id, x, y, width: child.width ?? 0, height: child.height ?? 0, parent });
      const own = { x: at.x + x, y: at.y + y };
      origin.set(child.id, own);
      walk(child, child.id, own);
    }
  };
  walk(root, "", { x: 0, y: 0 });
  const edges = new Map<string, PlacedEdge>();
  const all = [...(root.edges ?? [])];
  const collect = (node: ElkNode) => {
    for (const child of node.children ?? []) {
      all.push(...(child.edges ?? []));
      collect(child);
    }
  };
  collect(root);
  for (const edge of all) {
    const section = edge.sections?.[0];
    if (!section) continue;
    const at = origin.get((edge as { container?: string }).container ?? "root") ?? { x: 0, y: 0 };
    const shift = (point: Point) => ({ x: point.x + at.x, y: point.y + at.y });
    const label = edge.labels?.[0];
    edges.set(edge.id, {
      id: edge.id,
      points: [section.startPoint, ...(section.bendPoints ?? []), section.endPoint].map(shift),
      label: label
        ? shift({ x: (label.x ?? 0) + (label.width ?? 0) / 2, y: (label.y ?? 0) + (label.height ?? 0) / 2 })
        : null,
    });
  }
  // A drawing without a route for an edge still shows it.
  for (const edge of drawing.edges)
    if (!edges.has(edge.id)) edges.set(edge.id, { id: edge.id, points: [], label: null });
  return { nodes, edges };
}

/** An orthogonal path with round corners, and the arrow at its end. */
export function pathOf(points: Point[], radius = 8): { line: string; arrow: string } {
  const first = points[0];
  const last = points.at(-1);
  if (!first || !last || points.length < 2) return { line: "", arrow: "" };
  const parts = [`M${first.x} ${first.y}`];
  for (let index = 1; index < points.length - 1; index++) {
    const [from, at, to] = [points[index - 1], points[index], points[index + 1]];
    if (!from || !at || !to) continue;
    const before = towards(at, from, radius);
    const after = towards(at, to, radius);
    parts.push(`L${before.x} ${before.y}Q${at.x} ${at.y} ${after.x} ${after.y}`);
  }
  const previous = points.at(-2) ?? first;
  const end = towards(last, previous, 6);
  parts.push(`L${end.x} ${end.y}`);
  const dx = Math.sign(last.x - previous.x);
  const dy = Math.sign(last.y - previous.y);
  const arrow = `M${last.x} ${last.y}L${last.x - dx * 7 - dy * 4} ${last.y - dy * 7 - dx * 4}L${last.x - dx * 7 + dy * 4} ${last.y - dy * 7 + dx * 4}Z`;
  return { line: parts.join(""), arrow };
}

function towards(from: Point, to: Point, by: number): Point {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const share = Math.min(by / length, 0.5);
  return { x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share };
}
