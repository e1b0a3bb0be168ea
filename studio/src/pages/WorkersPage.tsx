import { queryOptions, useQuery } from "@tanstack/react-query";
import { Cpu, TriangleAlert } from "lucide-react";
import { useEffect } from "react";
import { api, ask } from "../api/client";
import { Command, EmptyState } from "../components/EmptyState";
import { Ago } from "../components/Time";
import { duration, instant } from "../domain/time";

const workersQuery = queryOptions({
  queryKey: ["workers"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/workers", { signal })),
  refetchInterval: 2_000,
});

const queuesQuery = queryOptions({
  queryKey: ["queues"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/queues", { signal })),
  refetchInterval: 2_000,
});

/** Who works, what waits, and why. */
export function WorkersPage() {
  const workers = useQuery(workersQuery);
  const queues = useQuery(queuesQuery);
  useEffect(() => {
    document.title = "Workers · Stepwell Studio";
  }, []);
  if (workers.error && !workers.data) throw workers.error;
  const all = workers.data?.workers ?? [];
  const alive = all.filter((worker) => worker.alive);
  const rows = queues.data?.queues ?? [];
  const ready = rows.reduce((sum, queue) => sum + queue.ready, 0);
  const active = rows.reduce((sum, queue) => sum + queue.active, 0);
  const waiting = rows.reduce((sum, queue) => sum + queue.waiting, 0);
  const unserved = rows.filter((queue) => queue.ready > 0 && queue.workers === 0);
  return (
    <main className="main" id="main">
      <div className="pagehead">
        <h1>Workers and queues</h1>
      </div>
      {workers.data && !alive.length && (
        <div className="banner st-running" role="status">
          <TriangleAlert className="i" aria-hidden="true" />
          <span className="grow">
            No worker is running. {ready ? `${ready} wait and will start as soon as there is one.` : ""}
          </span>
          <Command text="stepwell worker flows.py" />
        </div>
      )}
      {alive.length > 0 && unserved.length > 0 && (
        <div className="banner st-running" role="status">
          <TriangleAlert className="i" aria-hidden="true" />
          <span className="grow">
            No worker serves {unserved.map((queue) => queue.name).join(", ")}: what is ready there waits until
            one does.
          </span>
        </div>
      )}
      <div className="scroll wpage">
        <div className="stats">
          <Stat label="Workers alive" value={String(alive.length)} />
          <Stat label="Active" value={String(active)} />
          <Stat label="Ready, nobody has it" value={String(ready)} />
          <Stat label="Waiting for time or people" value={String(waiting)} />
        </div>
        <div className="wgrid">
          <section className="card wq">
            <header>
              <h2>Queues</h2>
            </header>
            <table className="table">
              <thead>
                <tr>
                  <th scope="col">Queue</th>
                  <th scope="col" className="num">
                    Ready
                  </th>
                  <th scope="col" className="num">
                    Oldest
                  </th>
                  <th scope="col" className="num">
                    Active
                  </th>
                  <th scope="col" className="num">
                    Waiting
                  </th>
                  <th scope="col">Why it waits</th>
                </tr>
              </thead>
              <tbody>
                {rows.map((queue) => (
                  <tr key={queue.name}>
                    <td className="mono">{queue.name}</td>
                    <td className="num">{queue.ready}</td>
                    <td className="num t2">{queue.ready ? duration(queue.age * 1000) : "—"}</td>
                    <td className="num t2">{queue.active}</td>
                    <td className="num t2">{queue.waiting}</td>
                    <td className="t2">{reason(queue)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
            {queues.data && !rows.length && <p className="t3 px-4 py-3">Nothing waits and nothing runs.</p>}
          </section>
          <section className="card">
            <header>
              <h2>Workers</h2>
            </header>
            {all.map((worker) => (
              <div className="wcard" key={worker.id}>
                <div className="row">
                  <span className={worker.alive ? "status st-completed" : "status st-failed"}>
                    {worker.alive ? "●" : "▲"} {worker.alive ? "alive" : "silent"}
                  </span>
                  <code className="med">{worker.name || worker.id}</code>
                  <span className="grow" />
                  <Lease at={worker.lease_until ?? null} alive={worker.alive} />
                </div>
                <div className="xs t3">
                  queues {worker.queues.join(", ") || "—"} · {worker.workflows.length} workflows
                </div>
                <div className="row wrap g1">
                  {worker.workflows.slice(0, 12).map((name) => (
                    <span className="tag mono" key={name}>
                      {name}
                    </span>
                  ))}
                </div>
              </div>
            ))}
            {workers.data && !all.length && (
              <EmptyState
                icon={<Cpu className="i l" aria-hidden="true" />}
                title="No worker"
                action={<Command text="stepwell worker flows.py" />}
              />
            )}
          </section>
        </div>
      </div>
    </main>
  );
}

function Lease({ at, alive }: { at: string | null; alive: boolean }) {
  const until = instant(at);
  if (until === null) return null;
  return (
    <span className="xs t3">
      {alive ? "lease ends " : "lease ended "}
      <Ago at={until} />
    </span>
  );
}

function Stat({ label, value }: { label: string; value: string }) {
  return (
    <div className="stat">
      <span className="t3 xs">{label}</span>
      <b>{value}</b>
    </div>
  );
}

function reason(queue: { ready: number; workers: number; active: number }): string {
  if (!queue.ready) return "";
  if (!queue.workers) return "no worker serves it";
  return queue.active ? "all slots are taken, or a limit is reached" : "a worker is about to take it";
}
