import { Link } from "@tanstack/react-router";
import { memo } from "react";
import type { Run } from "../../api/client";
import { StatusWord } from "../../components/StatusBadge";
import { Ago, useNow } from "../../components/Time";
import { isEnded } from "../../domain/status";
import { duration, instant } from "../../domain/time";
import { where } from "../../domain/where";

/** One run in the list. The fourth cell is the answer: where it is, and why. */
export const RunRow = memo(function RunRow(props: {
  run: Run;
  index: number;
  current: boolean;
  selected?: boolean;
  select?: (id: string, on: boolean) => void;
}) {
  const { run } = props;
  const answer = where(run);
  return (
    <tr
      aria-rowindex={props.index}
      className={`${props.current ? "cur" : ""}${props.selected ? " sel" : ""}`}
    >
      {props.select && (
        <td className="c-sel">
          <input
            type="checkbox"
            className="check"
            aria-label={`Select ${run.key || run.id.slice(-8)}`}
            checked={props.selected === true}
            onChange={(event) => props.select?.(run.id, event.target.checked)}
          />
        </td>
      )}
      <td className="c-st">
        <StatusWord status={run.status} />
      </td>
      <td className="c-run">
        <Link to="/runs/$id" params={{ id: run.id }} className="med rowlink">
          {run.key || run.id.slice(-8)}
        </Link>{" "}
        {run.key && <span className="mono xxs t3 idshort">{run.id.slice(-4)}</span>}
        {run.test && <span className="tag test">TEST</span>}
      </td>
      <td className="c-wf">
        <span className="mono xs">{run.workflow}</span> <span className="t3 xs">{version(run.version)}</span>
      </td>
      <td className="c-why">
        <div className="why">
          {answer.place && <code>{answer.place}</code>}
          {answer.words && <span title={answer.words}>{answer.words}</span>}
        </div>
      </td>
      <td className="num t2 c-ago">
        <Ago at={Date.parse(run.created_at)} />
      </td>
      <td className="num t2 c-dur">
        <Took run={run} />
      </td>
    </tr>
  );
});

/** "v3" for a number; a graph's hash is cut short. */
export function version(text: string): string {
  return /^\d+$/.test(text) ? `v${text}` : text.slice(0, 6);
}

function Took({ run }: { run: Run }) {
  const start = instant(run.started_at);
  const end = instant(run.ended_at);
  if (start === null) return <>—</>;
  if (isEnded(run.status) && end !== null) return <>{duration(end - start)}</>;
  return <Ticking since={start} />;
}

function Ticking({ since }: { since: number }) {
  const now = useNow();
  return <>{duration(Math.floor(Math.max(now - since, 0) / 1000) * 1000)}</>;
}
