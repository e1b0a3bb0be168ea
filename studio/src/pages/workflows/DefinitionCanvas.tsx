import { useCallback, useMemo } from "react";
import { Canvas, type EdgeLook, type Look } from "../../canvas/Canvas";
import { looks, size } from "../../canvas/graphNodes";
import type { Change } from "../../domain/definitionDiff";
import { chartDrawing, type Drawing, type EdgeState, graphDrawing } from "../../domain/graph";

const NODE_LOOK: Record<Change, string> = { added: " d-add", removed: " d-rem", changed: " d-chg", same: "" };
const EDGE_LOOK: Record<Change, EdgeState> = {
  added: "taken",
  removed: "error",
  changed: "active",
  same: "pending",
};

/** A graph or state chart without a run. */
export function DefinitionCanvas(props: {
  name: string;
  version: string;
  kind: string;
  definition: unknown;
}) {
  const { kind, definition } = props;
  const drawing = useMemo(
    () => (kind === "machine" ? chartDrawing(definition) : graphDrawing(definition)),
    [kind, definition],
  );
  return (
    <DrawingCanvas
      label={`Drawing of ${props.name}`}
      layoutKey={`definition ${props.name} ${props.version}`}
      kind={kind}
      drawing={drawing}
    />
  );
}

/** A drawing whose nodes and edges may be marked as added, removed or changed. */
export function DrawingCanvas(props: {
  label: string;
  layoutKey: string;
  kind: string;
  drawing: Drawing;
  changes?: { nodes: Map<string, Change>; edges: Map<string, Change> };
}) {
  const { drawing, changes } = props;
  const machine = props.kind === "machine";
  const sizeOf = useCallback(
    (id: string) => {
      const node = drawing.nodes.find((each) => each.id === id);
      return machine ? { width: Math.max(96, id.length * 7.6 + 44), height: 40 } : size(node);
    },
    [drawing, machine],
  );
  const nodes = useMemo(() => {
    const plain = machine ? places(drawing) : looks(drawing, new Map());
    return new Map<string, Look>(
      drawing.nodes.map((node) => {
        const look = plain.get(node.id) as Look;
        const change = changes?.nodes.get(node.id);
        const said = change === undefined ? node.type : change === "same" ? "unchanged" : change;
        const shape = change ? `${look.shape}${NODE_LOOK[change]}` : look.shape;
        return [node.id, { ...look, label: `${node.name}, ${said}`, shape }];
      }),
    );
  }, [drawing, machine, changes]);
  const edges = useMemo(
    () =>
      new Map<string, EdgeLook>(
        drawing.edges.map((edge) => [
          edge.id,
          { state: EDGE_LOOK[changes?.edges.get(edge.id) ?? "same"], label: edge.label },
        ]),
      ),
    [drawing, changes],
  );
  return (
    <Canvas
      label={props.label}
      layoutKey={props.layoutKey}
      drawing={drawing}
      sizeOf={sizeOf}
      nodes={nodes}
      edges={edges}
      selected=""
      select={() => {}}
    />
  );
}

function places(drawing: Drawing): Map<string, Look> {
  return new Map(
    drawing.nodes.map((node) => [
      node.id,
      {
        status: "idle",
        label: node.name,
        shape: `place${node.type === "end" ? " end" : ""}`,
        content: <span className="nm">{node.name}</span>,
      },
    ]),
  );
}
