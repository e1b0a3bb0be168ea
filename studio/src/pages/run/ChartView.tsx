import { useQuery } from "@tanstack/react-query";
import { Pause, Play, TimerReset } from "lucide-react";
import { useCallback, useMemo } from "react";
import { workflowQuery } from "../../api/queries";
import { Canvas, type EdgeLook, type Look } from "../../canvas/Canvas";
import { chartDrawing, chartStates, type EdgeState } from "../../domain/graph";
import { isEnded, type StepStatus, statusWord } from "../../domain/status";
import { duration } from "../../domain/time";
import { Inspector } from "./Inspector";
import { type RunAt, statusOf } from "./RunPage";

/** A machine's run: its chart with the current place, what can be done from there, and the places visited. */
export default function ChartView({ at }: { at: RunAt }) {
  const workflow = useQuery(workflowQuery(at.run.workflow, at.run.version));
  const definition = workflow.data?.definition;
  const drawing = useMemo(() => chartDrawing(definition), [definition]);
  const states = useMemo(() => chartStates(at.model, drawing, at.seq), [at.model, drawing, at.seq]);
  const status = statusOf(at);
  const since = states.visits.at(-1)?.at ?? at.model.begin;
  const spent = Math.floor((at.now - since) / 1000) * 1000;
  const sizeOf = useCallback(
    (id: string) => {
      const node = drawing.nodes.find((each) => each.id === id);
      return node?.type === "start"
        ? { width: 28, height: 28 }
        : { width: Math.max(132, id.length * 7.6 + 56), height: 42 };
    },
    [drawing],
  );
  const nodes = useMemo(() => {
    const looks = new Map<string, Look>();
    for (const node of drawing.nodes) {
      const here = node.id === states.here && node.type !== "start";
      const visits = states.places.get(node.id) ?? 0;
      const look: StepStatus = here
        ? status === "completed"
          ? "completed"
          : status
        : visits || node.type === "start"
          ? "completed"
          : "idle";
      if (node.type === "start") {
        looks.set(node.id, {
          status: look,
          name: "",
          label: "start",
          shape: "nodedot",
          content: <Play className="i ni" aria-hidden="true" />,
        });
        continue;
      }
      looks.set(node.id, {
        status: look,
        name: node.name,
        label: `${node.name}, ${here ? "here" : visits ? `visited ${visits} times` : "not visited"}`,
        shape: `place${node.type === "end" ? " end" : ""}${here ? " here" : ""}`,
        content: (
          <>
            {visits > 1 && <span className="visits">{visits}×</span>}
            <span className="nm" aria-current={here ? "step" : undefined}>
              {node.name}
            </span>
            {here && !isEnded(status) && (
              <span className="hs">
                <i />
                here {duration(spent)}
              </span>
            )}
          </>
        ),
      });
    }
    return looks;
  }, [drawing, states, status, spent]);
  const edges = useMemo(() => {
    const looks = new Map<string, EdgeLook>();
    for (const edge of drawing.edges) {
      const taken = states.taken.get(edge.id) ?? 0;
      const open = edge.source === states.here && edge.handle === "wait" && !isEnded(status);
      const isError = edge.handle === "error";
      const state: EdgeState = open
        ? "wait"
        : taken
          ? isError
            ? "errortaken"
            : "taken"
          : isError
            ? "error"
            : "pending";
      looks.set(edge.id, {
        state,
        label: (
          <>
            {open && <Pause className="i" aria-hidden="true" />}
            {edge.handle === "timeout" && <TimerReset className="i" aria-hidden="true" />}
            {edge.label}
            {taken > 0 && <b>{taken}×</b>}
          </>
        ),
      });
    }
    return looks;
  }, [drawing, states, status]);
  if (!definition) return <div className="panes two" aria-busy="true" />;
  return (
    <>
      <div className="panes two machine">
        <Canvas
          label={`States of ${at.run.workflow}, at ${states.here}, ${statusWord(status)}`}
          layoutKey={`${at.run.workflow} ${at.run.version}`}
          drawing={drawing}
          sizeOf={sizeOf}
          nodes={nodes}
          edges={edges}
          selected=""
          focus={states.here}
          select={(id) => {
            const visit = at.model.visits.findLast((each) => each.place === id && each.seq <= at.seq);
            const row = visit && at.model.rows.find((each) => each.result === visit.seq);
            at.select(row?.path ?? "");
          }}
        />
        <Inspector at={at} />
      </div>
      <Visited at={at} visits={states.visits} />
    </>
  );
}

function Visited({ at, visits }: { at: RunAt; visits: { place: string; seq: number; at: number }[] }) {
  if (!visits.length) return null;
  const shown = visits.slice(-12);
  const ended = isEnded(statusOf(at));
  return (
    <div className="visited">
      <span className="t3 xs">Visited</span>
      <ol>
        {shown.map((visit, index) => {
          const last = index === shown.length - 1;
          const spent = (shown[index + 1]?.at ?? at.now) - visit.at;
          return (
            <li
              key={visit.seq}
              className={last && !ended ? "here" : ""}
              style={{ flexGrow: Math.sqrt(Math.max(spent, 1000)) / 30 }}
            >
              <b className="mono">{visit.place}</b>
              {last && ended ? "" : duration(spent)}
            </li>
          );
        })}
      </ol>
    </div>
  );
}
