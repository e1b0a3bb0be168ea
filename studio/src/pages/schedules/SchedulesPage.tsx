import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CalendarClock, History, Pause, Play, Trash2 } from "lucide-react";
import { useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { schedulesQuery } from "../../api/queries";
import { DeleteDialog } from "../../components/DeleteDialog";
import { Command, EmptyState } from "../../components/EmptyState";
import { FormDialog } from "../../components/FormDialog";
import { IconButton } from "../../components/IconButton";
import { ListPage } from "../../components/ListPage";
import { Switch } from "../../components/Switch";
import { useNow, useZoneName } from "../../components/Time";
import { useChange } from "../../components/useChange";
import { absolute, ago, instant } from "../../domain/time";
import { BackfillDialog } from "./BackfillDialog";
import { ScheduleForm } from "./ScheduleForm";

type Schedule = Schemas["ScheduleView"];

const WHY: Record<string, string> = {
  overlap: "the previous run had not ended",
  missed: "no worker was running",
  disabled: "the workflow is disabled",
  no_workflow: "the workflow has no definition",
};

/** Workflows that start by time: when, what they did last, and whether they are on. */
export function SchedulesPage() {
  const schedules = useQuery({ ...schedulesQuery, refetchInterval: 5_000 });
  const { problem, change } = useChange(schedulesQuery.queryKey);
  const [pausing, setPausing] = useState(false);
  const [removing, setRemoving] = useState<Schedule | null>(null);
  const [filling, setFilling] = useState<Schedule | null>(null);
  const [started, setStarted] = useState<{ name: string; run: string } | null>(null);
  const rows = schedules.data?.schedules ?? [];
  const on = rows.filter((row) => !row.paused);
  const set = (row: Schedule, run: boolean) => {
    const at = { params: { path: { name: row.name } }, body: {} as never };
    return run
      ? ask(api.POST("/api/v1/schedules/{name}/resume", at))
      : ask(api.POST("/api/v1/schedules/{name}/pause", at));
  };
  const runNow = async (row: Schedule) => {
    const at = { params: { path: { name: row.name } }, body: {} as never };
    const run = await ask(api.POST("/api/v1/schedules/{name}/trigger", at));
    setStarted({ name: row.name, run: run.id });
  };
  return (
    <ListPage
      title="Schedules"
      list={schedules}
      count={rows.length}
      summary={said(rows)}
      problem={problem}
      actions={
        on.length > 1 && (
          <button type="button" className="btn" onClick={() => setPausing(true)}>
            <Pause className="i" aria-hidden="true" />
            Pause all…
          </button>
        )
      }
      add="New schedule"
      form={(close) => <ScheduleForm close={close} />}
      empty={
        <EmptyState
          icon={<CalendarClock className="i l" aria-hidden="true" />}
          title="No schedules yet"
          action={<Command text="stepwell schedules create nightly WORKFLOW --cron '0 2 * * *'" />}
        >
          A schedule starts a workflow by cron in a time zone, or at an interval.
        </EmptyState>
      }
      dialogs={
        <>
          {pausing && (
            <FormDialog
              title={`Pause ${on.length} schedules?`}
              lead="They start no runs until they are turned on again. Runs that they started continue."
              close={() => setPausing(false)}
              keep="Keep them on"
              word={`Pause ${on.length} schedules`}
              act={() => {
                setPausing(false);
                void change(async () => {
                  for (const row of on) await set(row, false);
                });
              }}
            />
          )}
          {removing && (
            <DeleteDialog
              name={removing.name}
              lead="It starts no more runs. Runs that it started continue."
              word="Delete schedule"
              close={() => setRemoving(null)}
              remove={() => {
                const at = { params: { path: { name: removing.name } } };
                void change(() => ask(api.DELETE("/api/v1/schedules/{name}", at)));
              }}
            />
          )}
          {filling && <BackfillDialog schedule={filling} close={() => setFilling(null)} />}
        </>
      }
    >
      {started && (
        <p className="note2 t2" role="status">
          {started.name} started{" "}
          <Link className="link mono" to="/runs/$id" params={{ id: started.run }}>
            {started.run.slice(0, 8)}
          </Link>
        </p>
      )}
      <table className="table sct rules">
        <thead>
          <tr>
            <th scope="col">Schedule</th>
            <th scope="col">When</th>
            <th scope="col">Next</th>
            <th scope="col" className="hide-s">
              Last
            </th>
            <th scope="col" className="hide-s">
              Overlap
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
              set={(run) => void change(() => set(row, run))}
              run={() => void change(() => runNow(row))}
              fill={() => setFilling(row)}
              remove={() => setRemoving(row)}
            />
          ))}
        </tbody>
      </table>
    </ListPage>
  );
}

function Row(props: {
  row: Schedule;
  set: (on: boolean) => void;
  run: () => void;
  fill: () => void;
  remove: () => void;
}) {
  const { row } = props;
  return (
    <tr>
      <td>
        <div className="stack2">
          <span className="mono med">{row.name}</span>
          {row.workflow !== row.name && (
            <Link className="link xxs mono" to="/workflows/$name" params={{ name: row.workflow }}>
              {row.workflow}
            </Link>
          )}
        </div>
      </td>
      <td>
        <div className={row.paused ? "stack2 t3" : "stack2"}>
          {row.cron ? row.words.replace(`, ${row.timezone}`, "") : row.words}
          {row.cron && (
            <span className="xxs t3">
              <span className="mono">{row.cron}</span> · {row.timezone}
            </span>
          )}
        </div>
      </td>
      <td className={row.paused ? "t3" : ""}>
        <Next row={row} />
      </td>
      <td className="hide-s">
        <Last row={row} />
      </td>
      <td className="t2 hide-s">{row.overlap}</td>
      <td className="num">
        <IconButton icon={Play} title="Run now" label={`Run ${row.name} now`} act={props.run} />
        <IconButton icon={History} title="Backfill…" label={`Backfill ${row.name}…`} act={props.fill} />
        <IconButton icon={Trash2} title="Delete…" label={`Delete ${row.name}…`} act={props.remove} />
      </td>
      <td className="num">
        <Switch label={`${row.name} is on`} on={!row.paused} set={props.set} />
      </td>
    </tr>
  );
}

function Next({ row }: { row: Schedule }) {
  const now = useNow(5000);
  const zone = useZoneName();
  const at = instant(row.next_at);
  if (row.paused) return <>{row.paused_by ? `paused by ${row.paused_by}` : "paused"}</>;
  if (at === null) return <>none</>;
  return (
    <time dateTime={row.next_at ?? ""} title={absolute(at, zone)}>
      {ago(at, now, zone)}
    </time>
  );
}

function Last({ row }: { row: Schedule }) {
  const now = useNow(5000);
  const zone = useZoneName();
  const at = instant(row.last_slot);
  const skipped = row.skipped
    ? `${row.skipped} skipped, last: ${WHY[row.skip_reason] ?? row.skip_reason}`
    : "";
  return (
    <div className="stack2">
      {at === null || !row.last_run ? (
        <span className="t3 nowrap">not run yet</span>
      ) : (
        <Link className="link" to="/runs/$id" params={{ id: row.last_run }}>
          {ago(at, now, zone)}
        </Link>
      )}
      {skipped && <span className="xxs t3">{skipped}</span>}
    </div>
  );
}

function said(rows: Schedule[]): string {
  const paused = rows.filter((row) => row.paused).length;
  if (!rows.length) return "";
  return paused ? `${rows.length}, ${paused === 1 ? "one" : paused} paused` : String(rows.length);
}
