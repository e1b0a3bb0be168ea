import { useQuery } from "@tanstack/react-query";
import {
  Braces,
  Clock,
  GitFork,
  GitMerge,
  Globe,
  Play,
  RadioTower,
  Repeat,
  ShieldAlert,
  Split,
  Square,
  SquareFunction,
  Stamp,
  Workflow,
} from "lucide-react";
import { useCallback, useMemo } from "react";
import { workflowQuery } from "../../api/queries";
import { Canvas, type EdgeLook, type Look } from "../../canvas/Canvas";
import { Glyph } from "../../components/Glyph";
import {
  type Drawing,
  type DrawnNode,
  edgeState,
  graphDrawing,
  type NodeState,
  nodeFact,
  nodeStates,
} from "../../domain/graph";
import { statusWord } from "../../domain/status";
import { duration } from "../../domain/time";
import { Inspector } from "./Inspector";
import { Outline } from "./Outline";
import type { RunAt } from "./RunPage";

const icon = { className: "i ni", "aria-hidden": true } as const;
const ICONS: Record<string, React.ReactNode> = {
  start: <Play {...icon} />,
  end: <Square {...icon} />,
  condition: <Split {...icon} />,
  switch: <Split {...icon} />,
  fork: <GitFork {...icon} />,
  merge: <GitMerge {...icon} />,
  loop: <Repeat {...icon} />,
  try: <ShieldAlert {...icon} />,
  retry: <Repeat {...icon} />,
  approval: <Stamp {...icon} />,
  delay: <Clock {...icon} />,
  wait: <RadioTower {...icon} />,
  http: <Globe {...icon} />,
  call: <SquareFunction {...icon} />,
  workflow: <Workflow {...icon} />,
};

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
  const selected = nodeId(drawing, states, at.selected);
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
      />
      <Inspector at={at} />
    </div>
  );
}

function nodeId(drawing: Drawing, states: Map<string, NodeState>, path: string): string {
  if (!path) return "";
  return drawing.nodes.find((node) => states.get(node.id)?.rows.includes(path))?.id ?? "";
}

function size(node: DrawnNode | undefined): { width: number; height: number } {
  if (!node) return { width: 120, height: 44 };
  if (node.type === "start" || node.type === "end") {
    return node.type === "start"
      ? { width: 28, height: 28 }
      : { width: Math.max(96, node.name.length * 7.6 + 44), height: 34 };
  }
  if (node.type === "fork" || node.type === "merge") return { width: 8, height: 44 };
  return { width: Math.min(Math.max(104, node.name.length * 7.4 + 44), 230), height: 44 };
}

function looks(drawing: Drawing, states: Map<string, NodeState>): Map<string, Look> {
  const parents = new Set(drawing.nodes.map((node) => node.parent));
  return new Map(
    drawing.nodes.map((node) => {
      const state = states.get(node.id);
      const status = state?.status ?? "idle";
      const fact = state?.fact ? `, ${state.fact}` : "";
      const label = `${node.name}, ${statusWord(status)}${fact}`;
      return [node.id, { status, label, ...drawn(node, state, parents.has(node.id)) }];
    }),
  );
}

function drawn(
  node: DrawnNode,
  state: NodeState | undefined,
  group: boolean,
): Pick<Look, "content" | "shape"> {
  const status = state?.status ?? "idle";
  if (group) {
    return {
      shape: "group",
      content: (
        <div className="ghead">
          {status === "idle" ? (ICONS[node.type] ?? <Braces {...icon} />) : <Glyph status={status} />}
          <span className="nm">{node.name}</span>
          <span className="grow" />
          {state?.total ? (
            <>
              <span className={`bar st-${status}`}>
                <i style={{ width: `${(100 * state.done) / state.total}%` }} />
              </span>
              <span className="num xs">
                <b>{state.done}</b> / {state.total}
              </span>
            </>
          ) : null}
        </div>
      ),
    };
  }
  if (node.type === "start") return { shape: "nodedot", content: <Play {...icon} /> };
  if (node.type === "fork" || node.type === "merge") {
    return {
      shape: "gate",
      content: node.type === "merge" ? <span className="rule xxs t2">{node.rule}</span> : null,
    };
  }
  return {
    shape: node.type === "end" ? "node endnode" : "node",
    content: (
      <>
        {state?.order ? <span className="ord">{state.order}</span> : null}
        {status === "idle" ? (ICONS[node.type] ?? <Braces {...icon} />) : <Glyph status={status} />}
        <span className="tx">
          <span className="nm">{node.name}</span>
          {state?.fact && node.type !== "end" && <span className="sub">{state.fact}</span>}
        </span>
      </>
    ),
  };
}
