import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Megaphone, RadioTower, Trash2 } from "lucide-react";
import { useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { triggersQuery } from "../../api/queries";
import { DeleteDialog } from "../../components/DeleteDialog";
import { Command, EmptyState } from "../../components/EmptyState";
import { IconButton } from "../../components/IconButton";
import { ListPage } from "../../components/ListPage";
import { Switch } from "../../components/Switch";
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
  const [removing, setRemoving] = useState<Trigger | null>(null);
  const [publishing, setPublishing] = useState<Trigger | null>(null);
  const rows = triggers.data?.triggers ?? [];
  const set = (row: Trigger, on: boolean) => {
    const at = { params: { path: { trigger: row.name } }, body: {} as never };
    return on
      ? ask(api.POST("/api/v1/triggers/{trigger}/resume", at))
      : ask(api.POST("/api/v1/triggers/{trigger}/pause", at));
  };
  return (
    <ListPage
      title="Triggers"
      list={triggers}
      count={rows.length}
      problem={problem}
      add="New trigger"
      form={(close) => <TriggerForm close={close} />}
      empty={
        <EmptyState
          icon={<RadioTower className="i l" aria-hidden="true" />}
          title="No triggers yet"
          action={<Command text="stepwell triggers create NAME WORKFLOW --event order.paid" />}
        >
          A trigger starts a workflow for each broadcast event of a name, or for each event that a source
          finds.
        </EmptyState>
      }
      dialogs={
        <>
          {publishing && <PublishDialog trigger={publishing} close={() => setPublishing(null)} />}
          {removing && (
            <DeleteDialog
              name={removing.name}
              lead={
                removing.origin
                  ? `${removing.origin} declares it, so the next engine with this workflow creates it again. Pause it instead.`
                  : "It starts no more runs. Runs that it started continue."
              }
              word="Delete trigger"
              close={() => setRemoving(null)}
              remove={() => {
                const at = { params: { path: { trigger: removing.name } } };
                void change(() => ask(api.DELETE("/api/v1/triggers/{trigger}", at)));
              }}
            />
          )}
        </>
      }
    >
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
              Created
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
    </ListPage>
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
      <td className="t2 hide-s">{nextStart(row)}</td>
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
          <IconButton
            icon={Megaphone}
            title="Publish its event"
            label={`Publish the event of ${row.name}…`}
            act={props.publish}
          />
        )}
        <IconButton icon={Trash2} title="Delete" label={`Delete ${row.name}…`} act={props.remove} />
      </td>
      <td className="num">
        <Switch label={`${row.name} is on`} on={!row.paused} set={props.set} />
      </td>
    </tr>
  );
}

function nextStart(row: Trigger) {
  if (row.paused) return "—";
  if (row.event) return "at the next event";
  return row.next_at ? <Ago at={Date.parse(row.next_at)} /> : null;
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
