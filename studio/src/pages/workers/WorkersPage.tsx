import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Cpu, TriangleAlert } from "lucide-react";
import { useState } from "react";
import type { Schemas } from "../../api/client";
import { limitsQuery, queuesQuery, workedOnQuery, workersQuery } from "../../api/queries";
import { Command, EmptyState } from "../../components/EmptyState";
import { Skeleton } from "../../components/Skeleton";
import { Spark } from "../../components/Spark";
import { usePageTitle } from "../../components/usePageTitle";
import { coarse, duration } from "../../domain/time";
import { DrainDialog } from "./DrainDialog";
import { useSamples } from "./samples";
import { WorkerCard } from "./WorkerCard";

type Queue = Schemas["QueueView"];
type Worker = Schemas["WorkerView"];

const LIVE = { refetchInterval: 2_000 };

/** Who works, what waits, and why. */
export function WorkersPage() {
  const workers = useQuery({ ...workersQuery, ...LIVE });
  const queues = useQuery({ ...queuesQuery, ...LIVE });
  const limits = useQuery(limitsQuery);
  const busy = useQuery({ ...workedOnQuery, ...LIVE }).data?.runs ?? [];
  const samples = useSamples(queues.data?.queues, queues.dataUpdatedAt);
  const [draining, setDraining] = useState<Worker | null>(null);
  usePageTitle("Workers");
  if (workers.error && !workers.data) throw workers.error;
  const all = workers.data?.workers ?? [];
  const alive = all.filter((worker) => worker.alive);
  const rows = queues.data?.queues ?? [];
  const ready = sum(rows, "ready");
  const oldest = Math.max(0, ...rows.map((queue) => queue.age));
  const limitOf = (queue: string) =>
    limits.data?.limits.find((limit) => limit.kind === "queue" && limit.name === queue)?.limit;
  return (
    <main className="main" id="main">
      <Banner alive={alive.length} known={workers.data !== undefined} ready={ready} queues={rows} />
      <div className="pagehead">
        <h1>Workers and queues</h1>
        <span className="grow" />
        <Command text="stepwell worker flows.py" />
      </div>
      <div className="scroll wpage">
        <div className="stats">
          <Stat
            label="Queued runs"
            value={ready.toLocaleString("en")}
            points={samples.ready}
            bad={ready > 0}
          />
          <Stat label="Oldest queued" value={ready ? duration(oldest * 1000) : "—"} points={samples.age} />
          <Stat
            label="Active runs"
            value={sum(rows, "active").toLocaleString("en")}
            points={samples.active}
          />
          <Stat label="Workers" value={String(alive.length)} />
        </div>
        <div className="wgrid">
          <section className="card wq" aria-labelledby="queues">
            <header>
              <h2 id="queues">Queues</h2>
              <span className="grow" />
              <Link className="link xs" to="/settings/$section" params={{ section: "limits" }}>
                Limits
              </Link>
            </header>
            {rows.length > 0 && (
              <table className="table">
                <thead>
                  <tr>
                    <th scope="col">Name</th>
                    <th scope="col" className="num">
                      Queued
                    </th>
                    <th scope="col" className="num">
                      Oldest
                    </th>
                    <th scope="col" className="num">
                      Active
                    </th>
                    <th scope="col" className="num hide-s">
                      Waiting
                    </th>
                    <th scope="col" className="num hide-s">
                      Limit
                    </th>
                    <th scope="col" className="hide-s">
                      Queued over time
                    </th>
                    <th scope="col">Why it waits</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((queue) => (
                    <tr key={queue.name}>
                      <td className="mono med">{queue.name}</td>
                      <td className="num">{queue.ready.toLocaleString("en")}</td>
                      <td className="num t2">{queue.ready ? coarse(queue.age * 1000) || "now" : "—"}</td>
                      <td className="num t2">{queue.active}</td>
                      <td className="num t2 hide-s">{queue.waiting}</td>
                      <td className="num t2 hide-s">{limitOf(queue.name) ?? "—"}</td>
                      <td className="hide-s">
                        <Spark points={samples.of(queue.name)} bad={queue.ready > 0 && stuck(queue)} />
                      </td>
                      <td>
                        <Why queue={queue} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )}
            {queues.isPending && <Skeleton rows={3} />}
            {queues.data && !rows.length && <p className="t3 note2">No runs are queued or active.</p>}
          </section>
          <section className="card wq" aria-labelledby="workers">
            <header>
              <h2 id="workers">Workers</h2>
              <span className="xs t3">{said(all)}</span>
            </header>
            {all.map((worker) => (
              <WorkerCard
                key={worker.id}
                worker={worker}
                runs={busy.filter((run) => run.worker === worker.id)}
                drain={() => setDraining(worker)}
              />
            ))}
            {workers.isPending && <Skeleton rows={2} />}
            {workers.data && !all.length && (
              <EmptyState
                icon={<Cpu className="i l" aria-hidden="true" />}
                title="No worker is running"
                action={<Command text="stepwell worker flows.py" />}
              >
                {ready > 0
                  ? `${ready} ${ready === 1 ? "run is" : "runs are"} queued and will start as soon as there is one.`
                  : "New runs wait in their queue until there is one."}
              </EmptyState>
            )}
          </section>
        </div>
      </div>
      {draining && <DrainDialog worker={draining} last={alive.length <= 1} close={() => setDraining(null)} />}
    </main>
  );
}

function sum(rows: Queue[], name: "ready" | "active" | "waiting"): number {
  return rows.reduce((total, queue) => total + queue[name], 0);
}

function said(workers: Worker[]): string {
  const silent = workers.filter((worker) => !worker.alive).length;
  if (!workers.length) return "";
  return silent ? `${workers.length}, ${silent} lost` : String(workers.length);
}

/** The reasons that do not go away by themselves. */
function stuck(queue: Queue): boolean {
  return ["no_worker", "limit", "held"].includes(queue.reason);
}

function Banner(props: { alive: number; known: boolean; ready: number; queues: Queue[] }) {
  const held = props.queues.find((queue) => queue.ready > 0 && stuck(queue));
  if (props.known && !props.alive) {
    return (
      <div className="banner st-running" role="status">
        <TriangleAlert className="i" aria-hidden="true" />
        <div className="grow">
          <b>No worker is running.</b>{" "}
          {props.ready > 0 && (
            <span className="t2">
              {props.ready} {props.ready === 1 ? "run is" : "runs are"} queued and will start as soon as there
              is one.
            </span>
          )}
        </div>
      </div>
    );
  }
  if (!held) return null;
  return (
    <div className="banner st-running" role="status">
      <TriangleAlert className="i" aria-hidden="true" />
      <div className="grow">
        <b>
          {held.ready} {held.ready === 1 ? "run is" : "runs are"} queued in <code>{held.name}</code>.
        </b>{" "}
        <span className="t2">{capital(held.why)}.</span>
      </div>
      <Link className="btn sm" to="/runs" search={{ status: "pending", queue: held.name } as never}>
        Show runs
      </Link>
    </div>
  );
}

function Why({ queue }: { queue: Queue }) {
  if (!queue.ready) return <span className="t3 xs">nothing is queued</span>;
  const words = queue.why || (queue.workers ? "a worker is about to take them" : "no worker serves it");
  if (!stuck(queue)) return <span className="t3 xs">{words}</span>;
  return (
    <span className="status st-running xs whyq">
      <TriangleAlert className="i s" aria-hidden="true" />
      <span>{words}</span>
    </span>
  );
}

function Stat(props: { label: string; value: string; points?: number[]; bad?: boolean }) {
  return (
    <div className="stat">
      <span className="t3 xs">{props.label}</span>
      <b>{props.value}</b>
      {props.points && <Spark points={props.points} bad={props.bad ?? false} />}
    </div>
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
