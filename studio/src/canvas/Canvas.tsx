import {
  type Edge,
  EdgeLabelRenderer,
  type EdgeProps,
  Handle,
  MiniMap,
  type Node,
  type NodeProps,
  Panel,
  Position,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  useStore,
} from "@xyflow/react";
import { Maximize, Minus, Plus } from "lucide-react";
import { memo, type ReactNode, useEffect, useLayoutEffect, useMemo, useState } from "react";
import { create } from "zustand";
import { Glyph } from "../components/Glyph";
import type { Drawing, EdgeState } from "../domain/graph";
import type { StepStatus } from "../domain/status";
import { type Layout, layout, type PlacedEdge, pathOf, type SizeOf } from "./layout";

/** What a node looks like now. It is kept outside the nodes, so that only those that change are drawn. */
export interface Look {
  status: StepStatus;
  label: string; // for people who do not see it
  content: ReactNode;
  name?: string; // what is left of it when it is small; none: it is drawn in full
  shape: string; // class
}

export interface EdgeLook {
  state: EdgeState;
  label: ReactNode;
}

/** How much of a node is drawn, by the zoom: card, name, block with glyph, block alone. */
export type Level = "card" | "compact" | "block" | "dot";

export function levelOf(zoom: number): Level {
  if (zoom >= 0.75) return "card";
  if (zoom >= 0.35) return "compact";
  return zoom >= 0.15 ? "block" : "dot";
}

interface LookStore {
  level: Level;
  nodes: Map<string, Look>;
  edges: Map<string, EdgeLook>;
  selected: string;
}

const useLooks = create<LookStore>(() => ({
  level: "card",
  nodes: new Map(),
  edges: new Map(),
  selected: "",
}));

export interface CanvasProps {
  label: string;
  layoutKey: string;
  drawing: Drawing;
  sizeOf: SizeOf;
  nodes: Map<string, Look>;
  edges: Map<string, EdgeLook>;
  selected: string;
  select: (id: string) => void;
  reveal?: boolean; // bring the selected node into sight
  children?: ReactNode;
}

export function Canvas(props: CanvasProps) {
  const [placed, setPlaced] = useState<Layout | null>(null);
  const { layoutKey, drawing, sizeOf } = props;
  useEffect(() => {
    let wanted = true;
    void layout(layoutKey, drawing, sizeOf).then((result) => wanted && setPlaced(result));
    return () => {
      wanted = false;
    };
  }, [layoutKey, drawing, sizeOf]);
  useEffect(
    () => useLooks.setState({ nodes: props.nodes, edges: props.edges, selected: props.selected }),
    [props.nodes, props.edges, props.selected],
  );
  if (!placed) {
    return (
      <div className="canvas" role="status">
        <p className="t3 layingout">Laying out {drawing.nodes.length} nodes…</p>
      </div>
    );
  }
  return (
    <ReactFlowProvider>
      <Flow {...props} placed={placed} />
    </ReactFlowProvider>
  );
}

/** Names never fall below 11 px: they grow as the canvas shrinks. In steps, so that a pan draws nothing anew. */
function counterScale(zoom: number): number {
  if (zoom >= 0.85) return 1;
  return Math.round(Math.min(11 / (13 * zoom), 2.2) * 10) / 10;
}

const FIT = { padding: 0.03, maxZoom: 1 };
const NODE_TYPES = { run: memo(RunNode) };
const EDGE_TYPES = { run: memo(RunEdge) };

function Flow(props: CanvasProps & { placed: Layout }) {
  const { drawing, placed } = props;
  const flow = useReactFlow();
  const level = useStore((state) => levelOf(state.transform[2]));
  useLayoutEffect(() => useLooks.setState({ level }), [level]);
  const nodes = useMemo<Node[]>(() => {
    const parents = new Set(drawing.nodes.map((node) => node.parent));
    return drawing.nodes.flatMap((node) => {
      const at = placed.nodes.get(node.id);
      if (!at) return [];
      return [
        {
          id: node.id,
          type: "run",
          position: { x: at.x, y: at.y },
          width: at.width,
          height: at.height,
          data: { group: parents.has(node.id) },
          zIndex: parents.has(node.id) ? -1 : 1,
          ...(at.parent ? { parentId: at.parent } : {}),
        },
      ];
    });
  }, [drawing, placed]);
  // The name of the selected one is above the nodes around it.
  const raised = useMemo(
    () =>
      nodes.map((node) => (node.id === props.selected && !node.data.group ? { ...node, zIndex: 3 } : node)),
    [nodes, props.selected],
  );
  const edges = useMemo<Edge[]>(
    () =>
      drawing.edges.map((edge) => ({
        id: edge.id,
        type: "run",
        source: edge.source,
        target: edge.target,
        data: { placed: placed.edges.get(edge.id) },
      })),
    [drawing, placed],
  );
  const large = drawing.nodes.length > 40;
  const counter = useStore((state) => counterScale(state.transform[2]));
  const { selected, reveal } = props;
  // Somebody jumped to a node that is out of sight: bring it in, and move nothing otherwise.
  useEffect(() => {
    const at = selected && reveal ? flow.getInternalNode(selected) : undefined;
    if (!at) return;
    const { x, y } = at.internals.positionAbsolute;
    const view = flow.getViewport();
    const box = document.querySelector(".react-flow")?.getBoundingClientRect();
    const left = x * view.zoom + view.x;
    const top = y * view.zoom + view.y;
    if (box && (left < 0 || top < 0 || left > box.width - 40 || top > box.height - 40)) {
      void flow.setCenter(x + (at.measured.width ?? 0) / 2, y + (at.measured.height ?? 0) / 2, {
        zoom: view.zoom,
        duration: window.matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 240,
      });
    }
  }, [selected, reveal, flow]);
  return (
    <div className={`canvas lv-${level}`} style={{ "--counter": counter } as React.CSSProperties}>
      <ReactFlow
        aria-label={props.label}
        nodes={raised}
        edges={edges}
        nodeTypes={NODE_TYPES}
        edgeTypes={EDGE_TYPES}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        nodesFocusable={false}
        fitView
        fitViewOptions={FIT}
        minZoom={0.05}
        maxZoom={1.6}
        onNodeClick={(_, node) => props.select(node.id)}
        onPaneClick={() => props.select("")}
        proOptions={{ hideAttribution: false }}
      >
        {!large && drawing.nodes.length > 8 && (
          <MiniMap pannable ariaLabel="Map of the graph" nodeColor={miniColor} nodeStrokeWidth={0} />
        )}
        <Panel position="bottom-left">
          <div className="zoom">
            <button
              type="button"
              className="iconbtn sm"
              aria-label="Zoom out"
              onClick={() => void flow.zoomOut()}
            >
              <Minus className="i s" aria-hidden="true" />
            </button>
            <Zoom />
            <button
              type="button"
              className="iconbtn sm"
              aria-label="Zoom in"
              onClick={() => void flow.zoomIn()}
            >
              <Plus className="i s" aria-hidden="true" />
            </button>
            <span className="vl" />
            <button
              type="button"
              className="iconbtn sm"
              aria-label="Fit"
              onClick={() => void flow.fitView(FIT)}
            >
              <Maximize className="i s" aria-hidden="true" />
            </button>
          </div>
        </Panel>
        {(level === "block" || level === "dot") && (
          <Panel position="bottom-right">
            <p className="lodnote xs">Blocks only below 15 %. Text from 35 %.</p>
          </Panel>
        )}
      </ReactFlow>
      {props.children}
    </div>
  );
}

function Zoom() {
  const zoom = useStore((state) => state.transform[2]);
  return <span className="xxs t2">{Math.round(zoom * 100)} %</span>;
}

function miniColor(node: Node): string {
  const status = useLooks.getState().nodes.get(node.id)?.status ?? "idle";
  return status === "idle" || status === "skipped" ? "var(--line-strong)" : `var(--status-${status}-line)`;
}

function RunNode({ id, data }: NodeProps) {
  const look = useLooks((store) => store.nodes.get(id));
  const selected = useLooks((store) => store.selected === id);
  const level = useLooks((store) => store.level);
  if (!look) return null;
  const group = data.group === true;
  const small = !group && !!look.name && (level === "block" || level === "dot");
  const loud = small && (selected || look.status === "failed");
  return (
    <>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <div
        className={`${group ? "group" : look.shape} st-${look.status}${selected ? " sel" : ""}`}
        role="group"
        aria-label={look.label}
      >
        {small ? null : look.content}
        {small && level === "block" && look.status !== "idle" && <Glyph status={look.status} size={20} />}
        {loud && <span className="ntag mono">{look.name}</span>}
      </div>
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </>
  );
}

function RunEdge({ id, data }: EdgeProps) {
  const look = useLooks((store) => store.edges.get(id));
  const placed = data?.placed as PlacedEdge | undefined;
  const drawn = useMemo(() => pathOf(placed?.points ?? []), [placed]);
  const state = look?.state ?? "pending";
  return (
    <>
      <path className={`edge ${state}`} d={drawn.line} />
      <path className={`mk ${state}`} d={drawn.arrow} />
      {placed?.label && look?.label && (
        <EdgeLabelRenderer>
          <div
            className={`elabel ${state}`}
            style={{ transform: `translate(-50%, -50%) translate(${placed.label.x}px, ${placed.label.y}px)` }}
          >
            {look.label}
          </div>
        </EdgeLabelRenderer>
      )}
    </>
  );
}
