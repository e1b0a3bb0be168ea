import {
  getViewportForBounds,
  MiniMap,
  type Node,
  type NodeProps,
  Panel,
  ReactFlow,
  ReactFlowProvider,
  type ReactFlowState,
  useReactFlow,
  useStore,
  type Viewport,
  ViewportPortal,
} from "@xyflow/react";
import { Maximize, Minus, Plus } from "lucide-react";
import {
  createContext,
  memo,
  type ReactNode,
  useCallback,
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { createStore, type StoreApi, useStore as useZustand } from "zustand";
import { Glyph } from "../components/Glyph";
import type { Drawing, EdgeState } from "../domain/graph";
import type { StepStatus } from "../domain/status";
import { boundsOf, boxOf, type Layout, layout, pathOf, type SizeOf } from "./layout";

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

const Looks = createContext<StoreApi<LookStore> | null>(null);

function useLooks<Part>(part: (looks: LookStore) => Part): Part {
  return useZustand(useContext(Looks) as StoreApi<LookStore>, part);
}

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
  focus?: string | null; // the node to begin at where all of them are too small to read; null: never
  children?: ReactNode;
}

/** A layout, and where the view begins: all of it fits. */
interface Placed {
  key: string;
  layout: Layout;
  nodes: Node[];
  viewport: Viewport;
  width: number; // of what can be seen of it
  height: number;
}

export function Canvas(props: CanvasProps) {
  const [placed, setPlaced] = useState<Placed | null>(null);
  const [looks] = useState(() =>
    createStore<LookStore>(() => ({
      level: "card",
      nodes: props.nodes,
      edges: props.edges,
      selected: props.selected,
    })),
  );
  const box = useRef<HTMLDivElement>(null);
  const { layoutKey, drawing, sizeOf } = props;
  const focus = useRef<string | null>("");
  focus.current = props.focus === undefined ? props.selected : props.focus;
  useEffect(() => {
    let wanted = true;
    void layout(layoutKey, drawing, sizeOf).then((found) => {
      if (!wanted) return;
      const { width = 0, height = 0 } = box.current?.getBoundingClientRect() ?? {};
      const viewport = beginning(found, drawing.nodes.length, focus.current, width, height);
      // Nodes are drawn once, as large as they will be: not as cards first and then again as blocks.
      looks.setState({ level: levelOf(viewport.zoom) });
      setPlaced({ key: layoutKey, layout: found, nodes: flowNodes(drawing, found), viewport, width, height });
    });
    return () => {
      wanted = false;
    };
  }, [layoutKey, drawing, sizeOf, looks]);
  useLayoutEffect(
    () => looks.setState({ nodes: props.nodes, edges: props.edges, selected: props.selected }),
    [looks, props.nodes, props.edges, props.selected],
  );
  if (!placed) {
    return (
      <div className="canvas" role="status" ref={box}>
        <p className="t3 layingout">Laying out {drawing.nodes.length} nodes…</p>
      </div>
    );
  }
  return (
    <Looks value={looks}>
      <ReactFlowProvider
        key={placed.key}
        initialNodes={placed.nodes}
        initialWidth={placed.width}
        initialHeight={placed.height}
        initialMinZoom={ZOOM_MIN}
        initialMaxZoom={FIT.maxZoom}
        initialFitViewOptions={fitting(drawing.nodes.length)}
        fitView={placed.viewport.zoom !== LEGIBLE} // so that it is not first drawn elsewhere
      >
        <Flow {...props} placed={placed} box={box} />
      </ReactFlowProvider>
    </Looks>
  );
}

function fitting(count: number) {
  return count > LARGE ? FIT_LARGE : FIT;
}

/** Where the view begins: all fits. Where a small graph had no names then, at one node or at its start. */
function beginning(
  layout: Layout,
  count: number,
  focus: string | null,
  width: number,
  height: number,
): Viewport {
  const { padding, maxZoom } = fitting(count);
  const fit = getViewportForBounds(boundsOf(layout), width, height, ZOOM_MIN, maxZoom, padding);
  const box = boxOf(layout, focus ?? "") ?? layout.nodes.values().next().value;
  if (focus === null || fit.zoom >= LEGIBLE_FROM || count > LARGE || !box) return fit;
  const x = focus ? width / 2 - (box.x + box.width / 2) * LEGIBLE : EDGE;
  const y = height / 2 - (box.y + box.height / 2) * LEGIBLE;
  return { x, y, zoom: LEGIBLE };
}

/**
 * The nodes for the library, with sizes that need no measuring. They have no handles: edges are routed by the
 * layout and drawn all at once, so nothing follows the place of a handle.
 */
function flowNodes(drawing: Drawing, placed: Layout): Node[] {
  const parents = new Set(drawing.nodes.map((node) => node.parent));
  return drawing.nodes.flatMap((node) => {
    const at = placed.nodes.get(node.id);
    if (!at) return [];
    const size = { width: at.width, height: at.height };
    const group = parents.has(node.id);
    return [
      {
        id: node.id,
        type: "run",
        position: { x: at.x, y: at.y },
        ...size,
        measured: size,
        handles: [],
        data: { group },
        zIndex: group ? -1 : 1,
        ...(at.parent ? { parentId: at.parent } : {}),
      },
    ];
  });
}

/** Names never fall below 11 px: they grow as the canvas shrinks. In steps, so that a pan draws nothing anew. */
function counterScale(zoom: number): number {
  if (zoom >= 0.85) return 1;
  return Math.round(Math.min(11 / (13 * zoom), 2.2) * 10) / 10;
}

const FIT = { padding: 0.03, maxZoom: 1 };
const FIT_LARGE = { padding: { x: 0.03, top: 0.03, bottom: "52px" }, maxZoom: 1 } as const; // above the note
const LARGE = 40; // nodes
const LEGIBLE = 0.6;
const LEGIBLE_FROM = 0.48;
const EDGE = 16; // px
const MAP_FROM = 320; // px: in a smaller window the map would cover what it shows
const ZOOM_MIN = 0.05;
const NODE_TYPES = { run: memo(RunNode) };

function Flow(props: CanvasProps & { placed: Placed; box: React.RefObject<HTMLDivElement | null> }) {
  const { drawing, placed } = props;
  const flow = useReactFlow();
  const looks = useContext(Looks);
  // The library knows where the view is only once it is drawn.
  const zoom = (state: ReactFlowState) => (state.panZoom ? state.transform[2] : placed.viewport.zoom);
  const level = useStore((state) => levelOf(zoom(state)));
  useLayoutEffect(() => looks?.setState({ level }), [looks, level]);
  // The name of the selected one is above the nodes around it.
  const raised = useMemo(
    () =>
      placed.nodes.map((node) =>
        node.id === props.selected && !node.data.group ? { ...node, zIndex: 3 } : node,
      ),
    [placed.nodes, props.selected],
  );
  const miniColor = useCallback(
    (node: Node) => {
      const status = looks?.getState().nodes.get(node.id)?.status ?? "idle";
      return status === "idle" || status === "skipped"
        ? "var(--line-strong)"
        : `var(--status-${status}-line)`;
    },
    [looks],
  );
  const large = drawing.nodes.length > LARGE;
  const counter = useStore((state) => counterScale(zoom(state)));
  const { selected, reveal, box: frame } = props;
  // Somebody jumped to a node that is out of sight: bring it in, and move nothing otherwise.
  useEffect(() => {
    const at = selected && reveal ? flow.getInternalNode(selected) : undefined;
    if (!at) return;
    const { x, y } = at.internals.positionAbsolute;
    const view = flow.getViewport();
    const box = frame.current?.getBoundingClientRect();
    const left = x * view.zoom + view.x;
    const top = y * view.zoom + view.y;
    if (box && (left < 0 || top < 0 || left > box.width - 40 || top > box.height - 40)) {
      void flow.setCenter(x + (at.measured.width ?? 0) / 2, y + (at.measured.height ?? 0) / 2, {
        zoom: view.zoom,
        duration: window.matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 240,
      });
    }
  }, [selected, reveal, flow, frame]);
  return (
    <div className={`canvas lv-${level}`} ref={frame} style={{ "--counter": counter } as React.CSSProperties}>
      <ReactFlow
        aria-label={props.label}
        nodes={raised}
        nodeTypes={NODE_TYPES}
        nodesDraggable={false}
        nodesConnectable={false}
        elementsSelectable={false}
        nodesFocusable={false}
        defaultViewport={placed.viewport}
        minZoom={ZOOM_MIN}
        maxZoom={1.6}
        onNodeClick={(_, node) => props.select(node.id)}
        onPaneClick={() => props.select("")}
        proOptions={{ hideAttribution: false }}
      >
        <ViewportPortal>
          <Edges placed={placed.layout} />
        </ViewportPortal>
        {!large && drawing.nodes.length > 8 && placed.height >= MAP_FROM && (
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
              onClick={() => void flow.fitView(fitting(drawing.nodes.length))}
            >
              <Maximize className="i s" aria-hidden="true" />
            </button>
          </div>
        </Panel>
        {(level === "block" || level === "dot") && (
          <Panel position="bottom-right">
            <p className="lodnote xs">Zoom in to see the names.</p>
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

function RunNode({ id, data }: NodeProps) {
  const look = useLooks((store) => store.nodes.get(id));
  const selected = useLooks((store) => store.selected === id);
  const level = useLooks((store) => store.level);
  if (!look) return null;
  const group = data.group === true;
  const small = !group && !!look.name && (level === "block" || level === "dot");
  const loud = small && (selected || look.status === "failed");
  return (
    <div
      className={`${group ? "group" : look.shape} st-${look.status}${selected ? " sel" : ""}`}
      role="group"
      aria-label={look.label}
    >
      {small ? null : look.content}
      {small && level === "block" && look.status !== "idle" && <Glyph status={look.status} size={20} />}
      {loud && <span className="ntag mono">{look.name}</span>}
    </div>
  );
}

/** All edges in one picture, and one path for each state: a pan moves few elements. */
function Edges({ placed }: { placed: Layout }) {
  const looks = useLooks((store) => store.edges);
  const drawn = useMemo(
    () => [...placed.edges.values()].map((edge) => ({ ...edge, ...pathOf(edge.points) })),
    [placed],
  );
  const lines = new Map<EdgeState, string>();
  const arrows = new Map<EdgeState, string>();
  for (const edge of drawn) {
    const state = looks.get(edge.id)?.state ?? "pending";
    lines.set(state, (lines.get(state) ?? "") + edge.line);
    arrows.set(state, (arrows.get(state) ?? "") + edge.arrow);
  }
  const states = [...lines.keys()].sort((a, b) => ABOVE.indexOf(a) - ABOVE.indexOf(b));
  return (
    <>
      <svg className="edges" aria-hidden="true">
        {states.map((state) => (
          <g key={state}>
            <path className={`edge ${state}`} d={lines.get(state)} />
            <path className={`mk ${state}`} d={arrows.get(state)} />
          </g>
        ))}
      </svg>
      {drawn.map((edge) => {
        const look = looks.get(edge.id);
        return (
          edge.label &&
          look?.label && (
            <div
              key={edge.id}
              className={`elabel ${look.state}`}
              style={{ transform: `translate(${edge.label.x}px, ${edge.label.y}px)` }}
            >
              {look.label}
            </div>
          )
        );
      })}
    </>
  );
}

/** Where lines cross, the later one is seen. */
const ABOVE: readonly EdgeState[] = ["untaken", "pending", "error", "taken", "wait", "errortaken", "active"];
