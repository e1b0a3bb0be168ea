import ELK, { type ElkExtendedEdge, type ElkNode } from "elkjs/lib/elk-api";
import workerAddress from "elkjs/lib/elk-worker.min.js?url";
import { besideTheirSource, type Drawing } from "../domain/graph";

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

// Made when this file is loaded: the worker reads its script while the page still asks for the run.
let elk = typeof Worker === "undefined" ? null : made();

function made(): InstanceType<typeof ELK> {
  return new ELK({ workerFactory: () => new Worker(workerAddress) });
}

const kept = new Map<string, Promise<Layout>>();

/** Lay a drawing out, once for each key: definitions do not change. Large ones are kept for the next visit. */
export function layout(key: string, drawing: Drawing, sizeOf: SizeOf): Promise<Layout> {
  const known = kept.get(key);
  if (known) return known;
  const stored = drawing.nodes.length > LARGE ? recall(key, drawing) : null;
  const placed = stored ? Promise.resolve(stored) : place(drawing, sizeOf);
  kept.set(key, placed);
  placed.then(
    (result) => drawing.nodes.length > LARGE && !stored && remember(key, result),
    () => kept.delete(key),
  );
  return placed;
}

const STORE = "stepwell layout ";
const STORED_MAX = 12; // layouts, of some 50 kB each

function remember(key: string, result: Layout): void {
  try {
    const old = Object.keys(localStorage).filter((each) => each.startsWith(STORE));
    for (const each of old.slice(STORED_MAX - 1)) localStorage.removeItem(each);
    localStorage.setItem(STORE + key, JSON.stringify([[...result.nodes], [...result.edges]]));
  } catch {
    // without storage it is laid out again
  }
}

/** The layout of an earlier visit, if it has exactly the nodes and edges of this drawing. */
function recall(key: string, drawing: Drawing): Layout | null {
  try {
    const [nodes, edges] = JSON.parse(localStorage.getItem(STORE + key) ?? "[[], []]");
    const found: Layout = { nodes: new Map(nodes), edges: new Map(edges) };
    const same =
      found.nodes.size === drawing.nodes.length &&
      found.edges.size === drawing.edges.length &&
      drawing.nodes.every((node) => found.nodes.has(node.id)) &&
      drawing.edges.every((edge) => found.edges.has(edge.id));
    return same ? found : null;
  } catch {
    return null;
  }
}

const HEAD = 160; // what stands beside the name in the head of a group

const OPTIONS = {
  "elk.algorithm": "layered",
  "elk.direction": "RIGHT",
  "elk.edgeRouting": "ORTHOGONAL",
  "elk.hierarchyHandling": "INCLUDE_CHILDREN",
  "elk.layered.spacing.nodeNodeBetweenLayers": "20",
  "elk.layered.spacing.edgeNodeBetweenLayers": "8",
  "elk.spacing.nodeNode": "30",
  "elk.spacing.edgeNode": "18",
  "elk.spacing.edgeEdge": "14",
  "elk.spacing.edgeLabel": "4",
  "elk.edgeLabels.placement": "TAIL",
  "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
  "elk.layered.nodePlacement.strategy": "NETWORK_SIMPLEX",
};

// 300 nodes take 3.8 s with the options above and 0.45 s with these, in the same shape: few lines cross either way.
const LARGE = 100; // nodes
const QUICK = { ...OPTIONS, "elk.layered.nodePlacement.strategy": "SIMPLE", "elk.layered.thoroughness": "1" };

async function place(drawing: Drawing, sizeOf: SizeOf): Promise<Layout> {
  const below = drawing.nodes.length > LARGE ? new Map() : besideTheirSource(drawing);
  if (below.size) {
    const placed = await placeOnce(drawing, sizeOf, below);
    if (stepDown(placed, drawing, below)) return placed;
  }
  return placeOnce(drawing, sizeOf, new Map());
}

/** Route the edges to targets beside their source; false if something is in the way. */
function stepDown(layout: Layout, drawing: Drawing, below: Map<string, string>): boolean {
  for (const edge of drawing.edges) {
    if (!below.has(edge.id)) continue;
    const source = layout.nodes.get(edge.source);
    const target = layout.nodes.get(edge.target);
    if (!source || !target) return false;
    const left = Math.max(source.x, target.x);
    const right = Math.min(source.x + source.width, target.x + target.width);
    if (right - left < 24) return false;
    const x = (left + right) / 2;
    const down = target.y > source.y;
    const from = down ? source.y + source.height : source.y;
    const to = down ? target.y : target.y + target.height;
    const between = [...layout.nodes.values()].some(
      (node) =>
        node.parent === source.parent &&
        node.x < x &&
        node.x + node.width > x &&
        node.y < Math.max(from, to) - 1 &&
        node.y + node.height > Math.min(from, to) + 1,
    );
    if (between || Math.abs(to - from) < 18) return false;
    const at = { x: 0, y: 0 };
    for (let up = layout.nodes.get(source.parent); up; up = layout.nodes.get(up.parent)) {
      at.x += up.x;
      at.y += up.y;
    }
    const shift = (point: Point) => ({ x: point.x + at.x, y: point.y + at.y });
    const middle = { x: x + edge.label.length * 3 + 14, y: (from + to) / 2 };
    layout.edges.set(edge.id, {
      id: edge.id,
      points: [shift({ x, y: from }), shift({ x, y: to })],
      label: shift(middle),
    });
  }
  return true;
}

async function placeOnce(drawing: Drawing, sizeOf: SizeOf, below: Map<string, string>): Promise<Layout> {
  elk ??= made();
  const byParent = new Map<string, string[]>();
  for (const node of drawing.nodes) {
    byParent.set(node.parent, [...(byParent.get(node.parent) ?? []), node.id]);
  }
  const built = (id: string): ElkNode => {
    const children = byParent.get(id) ?? [];
    if (!children.length)
      return { id, width: Math.ceil(sizeOf(id).width), height: Math.ceil(sizeOf(id).height) };
    return {
      id,
      children: children.map(built),
      layoutOptions: {
        "elk.padding": "[top=44,left=16,bottom=16,right=16]",
        "elk.nodeSize.constraints": "MINIMUM_SIZE",
        "elk.nodeSize.minimum": `(${id.length * 7.4 + HEAD}, 60)`, // its name, its bar and its count
      },
    };
  };
  const edges: ElkExtendedEdge[] = drawing.edges.map((edge) => ({
    id: edge.id,
    sources: [below.get(edge.id) ?? edge.source],
    targets: [edge.target],
    labels:
      edge.label && !below.has(edge.id)
        ? [{ id: `${edge.id} label`, text: edge.label, width: edge.label.length * 6 + 14, height: 18 }]
        : [],
  }));
  const result = await elk.layout({
    id: "root",
    layoutOptions: {
      ...(drawing.nodes.length > LARGE ? QUICK : OPTIONS),
      // What goes back in the order of the places is drawn as going back.
      ...(drawing.ordered ? { "elk.layered.cycleBreaking.strategy": "MODEL_ORDER" } : {}),
    },
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
      // Whole pixels, as the browser will measure them.
      const size = { width: Math.ceil(child.width ?? 0), height: Math.ceil(child.height ?? 0) };
      nodes.set(child.id, { id: child.id, x, y, ...size, parent });
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

/** The rectangle that holds all nodes and all lines. */
export function boundsOf(layout: Layout): Point & { width: number; height: number } {
  const top = [...layout.nodes.values()].filter((node) => !node.parent);
  const points = [...layout.edges.values()].flatMap((edge) => edge.points);
  const x = Math.min(0, ...top.map((node) => node.x), ...points.map((point) => point.x));
  const y = Math.min(0, ...top.map((node) => node.y), ...points.map((point) => point.y));
  const right = Math.max(1, ...top.map((node) => node.x + node.width), ...points.map((point) => point.x));
  const bottom = Math.max(1, ...top.map((node) => node.y + node.height), ...points.map((point) => point.y));
  return { x, y, width: right - x, height: bottom - y };
}

/** Where a node is on the whole drawing. */
export function boxOf(layout: Layout, id: string): PlacedNode | null {
  const node = layout.nodes.get(id);
  if (!node) return null;
  const holder = boxOf(layout, node.parent);
  return holder ? { ...node, x: node.x + holder.x, y: node.y + holder.y } : node;
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
