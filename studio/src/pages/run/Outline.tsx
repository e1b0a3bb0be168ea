import { useMemo } from "react";
import { Glyph } from "../../components/Glyph";
import { Kbd } from "../../components/Kbd";
import type { Drawing, DrawnNode, NodeState } from "../../domain/graph";
import { statusWord } from "../../domain/status";

const FOLD_FROM = 60;

/** The fast and accessible twin of the canvas. Large graphs show what needs a look; the rest is folded. */
export function Outline(props: {
  drawing: Drawing;
  states: Map<string, NodeState>;
  selected: string;
  select: (id: string) => void;
}) {
  const all = useMemo(
    () => ordered(props.drawing).filter(({ node }) => node.type !== "start" && node.type !== "fork"),
    [props.drawing],
  );
  const folded = all.length > FOLD_FROM;
  const quiet = (node: DrawnNode) =>
    ["completed", "idle", "skipped"].includes(props.states.get(node.id)?.status ?? "idle");
  const shown = folded ? all.filter(({ node }) => !quiet(node) || node.id === props.selected) : all;
  const count = (status: string) =>
    all.filter(({ node }) => (props.states.get(node.id)?.status ?? "idle") === status).length;
  const folds = [
    [count("completed"), "completed"] as const,
    [count("skipped"), "not taken"] as const,
    [count("idle"), "not reached"] as const,
  ].flatMap(([many, word]) => (many ? [`${many} ${word}`] : []));
  const current = Math.max(
    0,
    shown.findIndex(({ node }) => node.id === props.selected),
  );
  return (
    <section className="outlinepane scroll" aria-label="Outline">
      <h2 className="ph">
        Outline <Kbd keys={["O"]} />
      </h2>
      <ul role="tree" aria-label="Nodes">
        {shown.map(({ node, depth }, index) => {
          const state = props.states.get(node.id);
          const status = state?.status ?? "idle";
          return (
            <li
              key={node.id}
              role="treeitem"
              aria-level={depth + 1}
              aria-selected={node.id === props.selected}
              tabIndex={index === current ? 0 : -1}
              className={node.id === props.selected ? "sel" : ""}
              style={{ "--d": depth } as React.CSSProperties}
              onClick={() => props.select(node.id)}
              onKeyDown={(event) => {
                const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
                if (event.key === "Enter") props.select(node.id);
                else if (by) {
                  const next = shown[index + by];
                  if (next) props.select(next.node.id);
                  const sibling =
                    by > 0
                      ? event.currentTarget.nextElementSibling
                      : event.currentTarget.previousElementSibling;
                  (sibling as HTMLElement | null)?.focus();
                } else return;
                event.preventDefault();
              }}
            >
              {status === "idle" ? <span className="idle" /> : <Glyph status={status} size={14} />}
              <span className="clip mono">{node.name}</span>
              <span className="sr">, {statusWord(status)}</span>
              <span className="x">
                {state?.total ? `${state.done}/${state.total}` : status === "skipped" ? "" : state?.fact}
              </span>
            </li>
          );
        })}
      </ul>
      {folded && <p className="t3 xs foldnote">{folds.join(", ")}, folded</p>}
    </section>
  );
}

/**
 * Nodes in the order in which a reader follows them: one way out after the other, and where ways come
 * together only after the last of them. Those of a container are one level below it.
 */
function ordered(drawing: Drawing): { node: DrawnNode; depth: number }[] {
  const next = new Map<string, string[]>();
  const left = new Map(drawing.nodes.map((node) => [node.id, 0])); // ways into it that are not drawn yet
  for (const edge of drawing.edges) {
    next.set(edge.source, [...(next.get(edge.source) ?? []), edge.target]);
    left.set(edge.target, (left.get(edge.target) ?? 0) + 1);
  }
  const inner = new Set(drawing.edges.map((edge) => edge.target));
  const byId = new Map(drawing.nodes.map((node) => [node.id, node]));
  const children = new Map<string, string[]>();
  for (const node of drawing.nodes)
    children.set(node.parent, [...(children.get(node.parent) ?? []), node.id]);
  const out: { node: DrawnNode; depth: number }[] = [];
  const seen = new Set<string>();
  const visit = (id: string, depth: number) => {
    const node = byId.get(id);
    if (!node || seen.has(id)) return;
    seen.add(id);
    out.push({ node, depth });
    const below = children.get(id) ?? [];
    for (const child of below) if (!inner.has(child)) visit(child, depth + 1);
    for (const child of below) visit(child, depth + 1);
    for (const target of next.get(id) ?? []) {
      const ways = (left.get(target) ?? 0) - 1;
      left.set(target, ways);
      if (ways <= 0) visit(target, depth);
    }
  };
  const top = children.get("") ?? [];
  for (const id of top) if (!inner.has(id)) visit(id, 0);
  for (const id of top) visit(id, 0);
  return out;
}
