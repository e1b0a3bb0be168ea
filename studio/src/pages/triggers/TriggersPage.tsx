import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Megaphone, Plus, RadioTower, Trash2 } from "lucide-react";
import { useEffect, useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { triggersQuery } from "../../api/queries";
import { Command, EmptyState } from "../../components/EmptyState";
import { FormDialog } from "../../components/FormDialog";
import { Skeleton } from "../../components/Skeleton";
import { Ago } from "../../components/Time";
import { useChange } from "../../components/useChange";
import { duration } from "../../domain/time";
import { PublishDialog } from "./PublishDialog";
import { TriggerForm } from "./TriggerForm";

type Trigger = Schemas["TriggerView"];

/** What starts workflows when something happens: broadcast events, and what sources find. */
export function TriggersPage() {
  const triggers = useQuery({ ...triggersQuery, refetchInterval: 5_000 });
  const { problem, change } = useChange(triggersQuery.queryKey);
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Trigger | null>(null);
  const [publishing, setPublishing] = useState<Trigger | null>(null);
  useEffect(() => {
    document.title = "Triggers · Stepwell Studio";
  }, []);
  if (triggers.error && !triggers.data) throw triggers.error;
  const rows = triggers.data?.triggers ?? [];
  const set = (row: Trigger, on: boolean) => {
    const at = { params: { path: { trigger: row.name } }, body: {} as never };
    return on
      ? ask(api.POST("/api/v1/triggers/{trigger}/resume", at))
      : ask(api.POST("/api/v1/triggers/{trigger}/pause", at));
  };
  return (
    <main className="main" id="main">
      <div className={adding ? "schg" : "schg one"}>
        <div className="schl">
          <div className="pagehead">
            <h1>Triggers</h1>
            <span className="xs t3">{rows.length || ""}</span>
            <span className="grow" />
            <button type="button" className="btn primary" onClick={() => setAdding(true)}>
              <Plus className="i" aria-hidden="true" />
              New trigger
            </button>
          </div>
          {problem && (
            <p className="errline" role="alert">
              {problem}
            </p>
          )}
          {rows.length > 0 && (
            <table className="table sct rules">
              <thead>
                <tr>
                  <th scope="col">Trigger</th>
                  <th scope="col">Event or source</th>
                  <th scope="col">Status</th>
                  <th scope="col" className="hide-s">
                    Next
                  </th>
                  <th scope="col" className="hide-s">
                    {" "}
                    Created{" "}
                  </th>
                  <th scope="col" className="num">
                    <span className="sr">Actions</span>
                  </th>
                  <th scope="col" className="num">
                    On
                  </th>
                </tr>
              </thead>
              <tbody>
                {rows.map((row) => (
                  <Row
                    key={row.name}
                    row={row}
                    set={(on) => void change(() => set(row, on))}
                    publish={() => setPublishing(row)}
                    remove={() => setRemoving(row)}
                  />
                ))}
              </tbody>
            </table>
          )}
          {triggers.isPending && <Skeleton rows={4} />}
          {triggers.data && !rows.length && (
            <EmptyState
              icon={<RadioTower className="i l" aria-hidden="true" />}
              title="No triggers yet"
              action={<Command text="stepwell triggers create NAME WORKFLOW --event order.paid" />}
            >
              A trigger starts a workflow for each broadcast event of a name, or for each event that a source
              finds.
            </EmptyState>
          )}
        </div>
        {adding && <TriggerForm close={() => setAdding(false)} />}
      </div>
      {publishing && <PublishDialog trigger={publishing} close={() => setPublishing(null)} />}
      {removing && (
        <FormDialog
          title={`Delete ${removing.name}?`}
          lead={
            removing.origin
              ? `${removing.origin} declares it, so the next engine with this workflow creates it again. Pause it instead.`
              : "It starts no more runs. Runs that it started continue."
          }
          close={() => setRemoving(null)}
          keep="Keep it"
          word="Delete trigger"
          danger
          act={() => {
            setRemoving(null);
            const at = { params: { path: { trigger: removing.name } } };
            void change(() => ask(api.DELETE("/api/v1/triggers/{trigger}", at)));
          }}
        />
      )}
    </main>
  );
}

function Row(props: { row: Trigger; set: (on: boolean) => void; publish: () => void; remove: () => void }) {
  const { row } = props;
  return (
    <tr>
      <td>
        <div className="stack2">
          <span className="mono med">{row.name}</span>
          <Link className="link xxs mono" to="/workflows/$name" params={{ name: row.workflow }}>
            {row.workflow}
          </Link>
          {(row.paused || row.failures > 0) && (
            <span className="only-s">
              <Tag row={row} />
            </span>
          )}
        </div>
      </td>
      <td>
        <Cause row={row} />
      </td>
      <td>
        <State row={row} />
      </td>
      <td className="t2 hide-s">
        {row.event ? "at the next event" : row.next_at ? <Ago at={Date.parse(row.next_at)} /> : ""}
      </td>
      <td className="t2 hide-s">
        <div className="stack2">
          <Ago at={Date.parse(row.created_at)} />
          {(row.origin || row.created_by) && (
            <span className="xxs t3">
              {row.origin ? `by workflow ${row.origin}` : `by ${row.created_by}`}
            </span>
          )}
        </div>
      </td>
      <td className="num">
        {row.event && (
          <button
            type="button"
            className="iconbtn sm"
            title="Publish its event"
            aria-label={`Publish the event of ${row.name}…`}
            onClick={props.publish}
          >
            <Megaphone className="i" aria-hidden="true" />
          </button>
        )}
        <button
          type="button"
          className="iconbtn sm"
          title="Delete"
          aria-label={`Delete ${row.name}…`}
          onClick={props.remove}
        >
          <Trash2 className="i" aria-hidden="true" />
        </button>
      </td>
      <td className="num">
        <input
          type="checkbox"
          className="switch"
          role="switch"
          aria-label={`${row.name} is on`}
          checked={!row.paused}
          onChange={(event) => props.set(event.target.checked)}
        />
      </td>
    </tr>
  );
}

function Cause({ row }: { row: Trigger }) {
  return (
    <div className={row.paused ? "stack2 t3" : "stack2"}>
      <span>
        {row.event ? "event " : "source "}
        <span className="mono">{row.event || row.source}</span>
        {row.every !== null && `, checked every ${duration(row.every * 1000)}`}
      </span>
      {row.key && (
        <span className="xxs t3">
          key <span className="mono">{row.key}</span>
        </span>
      )}
      {row.condition && (
        <span className="xxs t3">
          if <span className="mono">{row.condition}</span>
        </span>
      )}
    </div>
  );
}

function Tag({ row }: { row: Trigger }) {
  if (row.paused) return <span className="tag">paused</span>;
  if (row.failures) return <span className="tag st st-failed">failing</span>;
  return <span className="tag st st-completed">OK</span>;
}

/** What it did last, and what went wrong. */
function State({ row }: { row: Trigger }) {
  return (
    <div className="stack2">
      <span>
        <Tag row={row} /> {row.paused && row.paused_by && <span className="t3">by {row.paused_by}</span>}
        {row.source && !row.paused && <span className="t3">started {row.started.toLocaleString("en")}</span>}
      </span>
      {row.paused && row.reason && <span className="xxs t3">{row.reason}</span>}
      {row.error && (
        <span className="xxs t2">
          {row.failures > 1 && `${row.failures} times: `}
          {row.error}
        </span>
      )}
      {row.refused > 0 && (
        <span className="xxs t2" title={row.refused_message}>
          {row.refused} refused, last {row.refused_at && <Ago at={Date.parse(row.refused_at)} />}:{" "}
          {row.refused_message || row.refused_reason}
        </span>
      )}
    </div>
  );
}
