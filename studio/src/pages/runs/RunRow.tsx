import { Link } from "@tanstack/react-router";
import { memo } from "react";
import type { Run } from "../../api/client";
import { Glyph } from "../../components/Glyph";
import { StatusWord } from "../../components/StatusBadge";
import { Ago, useNow } from "../../components/Time";
import { isEnded } from "../../domain/status";
import { duration, instant } from "../../domain/time";
import { where } from "../../domain/where";
import type { Columns } from "./columns";

/** One run in the list. The fourth cell is the answer: where it is, and why. */
export const RunRow = memo(function RunRow(props: {
  run: Run;
  index: number;
  current: boolean;
  selected?: boolean;
  columns?: Columns;
  select?: (id: string, on: boolean) => void;
}) {
  const { run, columns } = props;
  const answer = where(run);
  const shows = (name: keyof Columns, usually: boolean) => columns?.[name] ?? usually;
  return (
    <tr
      aria-rowindex={props.index}
      aria-selected={props.select ? props.selected === true : undefined}
      data-cursor={props.current ? "" : undefined}
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
        <div className="runkey">
          <Link
            to="/runs/$id"
            params={{ id: run.id }}
            className="med rowlink"
            title={run.key || undefined}
            aria-label={run.key || undefined}
          >
            {run.key ? <Key text={run.key} /> : run.id.slice(-8)}
          </Link>
          {run.key && <span className="mono xxs t3 idshort">{run.id.slice(-4)}</span>}
          {run.test && <span className="tag test">TEST</span>}
        </div>
      </td>
      {shows("workflow", true) && (
        <td className="c-wf clip" title={run.workflow}>
          <span className="mono xs">{run.workflow}</span>{" "}
          <span className="t3 xs">{version(run.version)}</span>
        </td>
      )}
      <td className="c-why">
        <div className="why">
          {answer.place && <code>{answer.place}</code>}
          {answer.done !== undefined && answer.total ? (
            <>
              <span
                className={`bar st-${run.status}`}
                role="progressbar"
                aria-label={`Progress of ${run.key || run.id.slice(-8)}`}
                aria-valuemin={0}
                aria-valuemax={answer.total}
                aria-valuenow={answer.done}
              >
                <i style={{ width: `${Math.min(100, (100 * answer.done) / answer.total)}%` }} />
              </span>
              <span className="num t2">
                {answer.done} / {answer.total}
              </span>
            </>
          ) : null}
          {answer.retryAt !== undefined && (
            <span className="status st-retrying">
              <Glyph status="retrying" size={14} />
              <Retry attempt={answer.attempt ?? 0} at={answer.retryAt} />
            </span>
          )}
          {answer.words && (
            <span className="clip" title={answer.words}>
              {answer.words}
            </span>
          )}
          {answer.attempts && <span className="tag">{answer.attempts} attempts</span>}
        </div>
      </td>
      {shows("tags", false) && (
        <td className="t2 xs">
          {Object.entries(run.tags)
            .map(([name, value]) => `${name}=${value}`)
            .join(", ")}
        </td>
      )}
      {shows("trigger", false) && <td className="t2 xs">{run.trigger}</td>}
      {shows("started", true) && (
        <td className="num t2 c-ago">
          <Ago at={Date.parse(run.created_at)} />
        </td>
      )}
      {shows("duration", true) && (
        <td className="num t2 c-dur">
          <Took run={run} />
        </td>
      )}
    </tr>
  );
});

const KEY_END = 10; // characters

/** A key that does not fit loses its middle: keys that triggers make are long, and differ at their ends. */
function Key({ text }: { text: string }) {
  const end = text.length > 2 * KEY_END ? text.length - KEY_END : text.length;
  return (
    <>
      <span className="clip">{text.slice(0, end)}</span>
      <span>{text.slice(end)}</span>
    </>
  );
}

/** "v3" for a number; a graph's hash is cut short. */
export function version(text: string): string {
  return /^\d+$/.test(text) ? `v${text}` : text.slice(0, 6);
}

function Took({ run }: { run: Run }) {
  // The row of a run that has not waited yet does not know when it began.
  const start = instant(run.started_at) ?? (run.status === "running" ? instant(run.created_at) : null);
  const end = instant(run.ended_at);
  if (start === null) return <>—</>;
  if (isEnded(run.status) && end !== null) return <>{duration(end - start)}</>;
  return <Ticking since={start} />;
}

function Retry({ attempt, at }: { attempt: number; at: number }) {
  const left = Math.ceil((at - useNow()) / 1000);
  return (
    <>
      attempt {attempt}
      {left > 0 ? ` in ${duration(left * 1000)}` : ""}
    </>
  );
}

function Ticking({ since }: { since: number }) {
  const now = useNow();
  return <>{duration(Math.floor(Math.max(now - since, 0) / 1000) * 1000)}</>;
}
