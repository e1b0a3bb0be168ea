import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { BellRing, Trash2 } from "lucide-react";
import { useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { alertsQuery } from "../../api/queries";
import { DeleteDialog } from "../../components/DeleteDialog";
import { Command, EmptyState } from "../../components/EmptyState";
import { IconButton } from "../../components/IconButton";
import { ListPage } from "../../components/ListPage";
import { Switch } from "../../components/Switch";
import { Ago } from "../../components/Time";
import { useChange } from "../../components/useChange";
import { duration } from "../../domain/time";
import { AlertForm } from "./AlertForm";

type Alert = Schemas["AlertView"];
type Incident = Schemas["AlertIncidentView"];

/** What the workers look out for, and what they have found that is not over. */
export function AlertsPage() {
  const alerts = useQuery({ ...alertsQuery, refetchInterval: 5_000 });
  const { problem, change } = useChange(alertsQuery.queryKey);
  const [removing, setRemoving] = useState<Alert | null>(null);
  const rows = alerts.data?.alerts ?? [];
  const open = rows.flatMap((alert) => alert.incidents.map((incident) => ({ alert, incident })));
  const set = (row: Alert, on: boolean) => {
    const { name, incidents, created_at, created_by, ...rule } = row;
    const at = { params: { path: { alert_name: name } }, body: { ...rule, paused: !on } as never };
    return ask(api.PUT("/api/v1/alerts/{alert_name}", at));
  };
  return (
    <ListPage
      title="Alerts"
      list={alerts}
      count={rows.length}
      summary={said(rows.length, open.length)}
      problem={problem}
      add="New alert"
      form={(close) => <AlertForm close={close} />}
      empty={
        <EmptyState
          icon={<BellRing className="i l" aria-hidden="true" />}
          title="No alerts yet"
          action={<Command text="stepwell alerts set failures failed --channel CHANNEL" />}
        >
          An alert notifies people of failed, stuck or overdue runs, of a queue without workers, and of a full
          queue.
        </EmptyState>
      }
      dialogs={
        removing && (
          <DeleteDialog
            name={removing.name}
            lead={
              removing.incidents.length
                ? "Its open incidents are deleted, and nobody is notified when they end."
                : "Nobody is notified of this condition from now on."
            }
            word="Delete alert"
            close={() => setRemoving(null)}
            remove={() => {
              const at = { params: { path: { alert_name: removing.name } } };
              void change(() => ask(api.DELETE("/api/v1/alerts/{alert_name}", at)));
            }}
          />
        )
      }
    >
      {open.length > 0 && <OpenIncidents open={open} />}
      <section aria-labelledby="alert-rules">
        <h2 className="h3 inpage" id="alert-rules">
          Rules
        </h2>
        <table className="table sct rules">
          <thead>
            <tr>
              <th scope="col">Alert</th>
              <th scope="col">Condition</th>
              <th scope="col">Status</th>
              <th scope="col" className="hide-s">
                Channel
              </th>
              <th scope="col" className="hide-s">
                Repeats every
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
                remove={() => setRemoving(row)}
              />
            ))}
          </tbody>
        </table>
      </section>
    </ListPage>
  );
}

function OpenIncidents({ open }: { open: { alert: Alert; incident: Incident }[] }) {
  return (
    <section aria-labelledby="alert-open">
      <h2 className="h3 inpage" id="alert-open">
        Open incidents
      </h2>
      <table className="table sct">
        <thead>
          <tr>
            <th scope="col">Incident</th>
            <th scope="col">Since</th>
            <th scope="col" className="hide-s">
              Runs
            </th>
            <th scope="col" className="hide-s">
              Notified
            </th>
          </tr>
        </thead>
        <tbody>
          {open.map(({ alert, incident }) => (
            <tr key={`${alert.name} ${incident.subject}`}>
              <td>
                <div className="stack2">
                  <span>
                    <span className="tag st st-failed">open</span> {found(alert, incident)}
                  </span>
                  <span className="xxs t3">
                    alert <span className="mono">{alert.name}</span>
                  </span>
                </div>
              </td>
              <td>
                <Ago at={Date.parse(incident.since)} />
              </td>
              <td className="hide-s">
                <span className="row g1 wrap">
                  {incident.runs.slice(0, 3).map((run) => (
                    <Link key={run} className="link mono xs" to="/runs/$id" params={{ id: run }}>
                      {run.slice(-8)}
                    </Link>
                  ))}
                  {incident.runs.length > 3 && (
                    <span className="t3 xs">and {incident.runs.length - 3} more</span>
                  )}
                </span>
              </td>
              <td className="t2 hide-s">
                {incident.reported_at ? <Ago at={Date.parse(incident.reported_at)} /> : "not yet"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Row({ row, set, remove }: { row: Alert; set: (on: boolean) => void; remove: () => void }) {
  return (
    <tr>
      <td>
        <span className="mono med">{row.name}</span>
      </td>
      <td>
        <div className={row.paused ? "stack2 t3" : "stack2"}>{rule(row)}</div>
      </td>
      <td>
        {row.paused ? (
          <span className="tag">paused</span>
        ) : row.incidents.length ? (
          <span className="tag st st-failed">{row.incidents.length} open</span>
        ) : (
          <span className="tag st st-completed">OK</span>
        )}
      </td>
      <td className="t2 hide-s">
        {row.channel ? (
          <div className="stack2">
            <span className="mono">{row.channel}</span>
            {row.to.length > 0 && <span className="xxs t3">{row.to.join(", ")}</span>}
          </div>
        ) : (
          "metrics only"
        )}
      </td>
      <td className="t2 hide-s">{duration(row.repeat * 1000)}</td>
      <td className="num">
        <IconButton icon={Trash2} title="Delete" label={`Delete ${row.name}…`} act={remove} />
      </td>
      <td className="num">
        <Switch label={`${row.name} is on`} on={!row.paused} set={set} />
      </td>
    </tr>
  );
}

function rule(row: Alert): string {
  const after = duration(row.after * 1000);
  const runs = row.at_least === 1 ? "a run" : `${row.at_least} runs`;
  const of = row.workflow ? ` of ${row.workflow}` : "";
  if (row.what === "failed") return `${runs}${of} failed within ${after}`;
  if (row.what === "stuck") return `${runs}${of} stuck for ${after}`;
  if (row.what === "overdue") return `${runs}${of} not ended after ${after}`;
  if (row.what === "no_worker") return `no worker on queue ${row.queue} for ${after}`;
  const lasting = row.after ? ` for ${after}` : "";
  return `${row.at_least.toLocaleString("en")} runs queued in ${row.queue}${lasting}`;
}

function found(alert: Alert, incident: Incident): string {
  const { count, subject } = incident;
  const runs = count === 1 ? "1 run" : `${count.toLocaleString("en")} runs`;
  if (alert.what === "failed") return `${runs} of ${subject} failed`;
  if (alert.what === "stuck") return `${runs} of ${subject} ${count === 1 ? "is" : "are"} stuck`;
  if (alert.what === "overdue") return `${runs} of ${subject} ${count === 1 ? "is" : "are"} overdue`;
  if (alert.what === "no_worker") return `No worker is on queue ${subject}`;
  return `${runs} queued in ${subject}`;
}

function said(rules: number, open: number): string {
  if (!rules) return "";
  return open ? `${open} open` : "no open incidents";
}
