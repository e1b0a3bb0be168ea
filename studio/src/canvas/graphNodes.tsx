import { Glyph } from "../components/Glyph";
import type { Drawing, DrawnNode, NodeState } from "../domain/graph";
import { statusWord } from "../domain/status";
import type { Look } from "./Canvas";
import { NodeIcon } from "./NodeIcon";

/** What the nodes of a graph look like, with a run or without one. */

export function size(node: DrawnNode | undefined): { width: number; height: number } {
  if (!node) return { width: 120, height: 44 };
  if (node.type === "start" || node.type === "end") {
    return node.type === "start"
      ? { width: 28, height: 28 }
      : { width: Math.max(96, node.name.length * 7.6 + 44), height: 34 };
  }
  if (node.type === "fork" || node.type === "merge") return { width: 8, height: 44 };
  return { width: Math.min(Math.max(104, node.name.length * 7.4 + 44), 230), height: 44 };
}

export function looks(drawing: Drawing, states: Map<string, NodeState>): Map<string, Look> {
  const parents = new Set(drawing.nodes.map((node) => node.parent));
  const before = new Map(drawing.edges.map((edge) => [edge.target, edge.source]));
  return new Map(
    drawing.nodes.map((node) => {
      const state = states.get(node.id);
      const status = state?.status ?? "idle";
      const fact = state?.fact ? `, ${state.fact}` : "";
      const after = before.get(node.id);
      const label = `${node.name}, ${statusWord(status)}${fact}${after ? `, after ${after}` : ""}`;
      const work = !["start", "fork", "merge"].includes(node.type);
      return [
        node.id,
        { status, label, name: work ? node.name : "", ...drawn(node, state, parents.has(node.id)) },
      ];
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
          {status === "idle" ? <NodeIcon type={node.type} /> : <Glyph status={status} />}
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
  if (node.type === "start") return { shape: "nodedot", content: <NodeIcon type="start" /> };
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
        {status === "idle" ? <NodeIcon type={node.type} /> : <Glyph status={status} />}
        <span className="tx">
          <span className="nm">{node.name}</span>
          {state?.fact && node.type !== "end" && (
            <span className="sub">
              {status === "idle" ? null : <NodeIcon type={node.type} />}
              {state.fact}
            </span>
          )}
        </span>
      </>
    ),
  };
}
