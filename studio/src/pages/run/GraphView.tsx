import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import { workflowQuery } from "../../api/queries";
import { Canvas, type EdgeLook } from "../../canvas/Canvas";
import { looks, size } from "../../canvas/graphNodes";
import {
  type Drawing,
  edgeState,
  graphDrawing,
  type NodeState,
  nodeFact,
  nodeStates,
} from "../../domain/graph";
import { duration } from "../../domain/time";
import { focusOf, Inspector } from "./Inspector";
import { Outline } from "./Outline";
import type { RunAt } from "./RunPage";

/** A graph run: outline, canvas, inspector. */
export default function GraphView({ at }: { at: RunAt }) {
  const carried = at.events[0]?.data.graph;
  const workflow = useQuery({ ...workflowQuery(at.run.workflow, at.run.version), enabled: !carried });
  const definition = carried ?? workflow.data?.definition;
  const drawing = useMemo(() => graphDrawing(definition), [definition]);
  const states = useMemo(
    () => nodeStates(at.model, drawing, at.seq, (row) => nodeFact(row, at.seq, at.now, duration)),
    [at.model, drawing, at.seq, at.now],
  );
  const sizeOf = useCallback((id: string) => size(drawing.nodes.find((node) => node.id === id)), [drawing]);
  const nodes = useMemo(() => looks(drawing, states), [drawing, states]);
  const edges = useMemo(
    () =>
      new Map<string, EdgeLook>(
        drawing.edges.map((edge) => [
          edge.id,
          { state: edgeState(edge, at.model, states), label: edge.label },
        ]),
      ),
    [drawing, at.model, states],
  );
  const selected = nodeId(drawing, states, at.selected || (focusOf(at)?.path ?? ""));
  const select = (id: string) => at.select(states.get(id)?.rows.at(-1) ?? "");
  if (!definition) return <div className="panes" aria-busy="true" />;
  return (
    <div className="panes">
      <Outline drawing={drawing} states={states} selected={selected} select={select} />
      <Canvas
        label={`Graph of ${at.run.workflow}`}
        layoutKey={`${at.run.workflow} ${at.run.version} ${carried ? at.run.id : ""}`}
        drawing={drawing}
        sizeOf={sizeOf}
        nodes={nodes}
        edges={edges}
        selected={selected}
        select={select}
        reveal
      />
      <Inspector at={at} />
    </div>
  );
}

function nodeId(drawing: Drawing, states: Map<string, NodeState>, path: string): string {
  if (!path) return "";
  return drawing.nodes.find((node) => states.get(node.id)?.rows.includes(path))?.id ?? "";
}
