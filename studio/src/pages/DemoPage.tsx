import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Play, Skull } from "lucide-react";
import { useEffect, useState } from "react";
import { api, ask, type Run } from "../api/client";
import { type Demo, demoQuery, killWorker } from "../api/demo";
import { runQuery } from "../api/queries";
import { Command, EmptyState } from "../components/EmptyState";
import { Glyph } from "../components/Glyph";
import { StatusWord } from "../components/StatusBadge";
import { useNow } from "../components/Time";
import { answer } from "../domain/answer";
import { summary } from "../domain/eventKinds";
import { placeName } from "../domain/path";
import { fromHistory, progressAt, type RunModel, statusAt } from "../domain/run";
import { isEnded, statusWord } from "../domain/status";
import { coarse, instant } from "../domain/time";
import { asProblem, where } from "../domain/where";
import { useRunEvents } from "./run/useRunEvents";

/** The first page of `stepwell demo`: a run that moves, and a worker to kill. */
export function DemoPage() {
  const demo = useQuery({ ...demoQuery, refetchInterval: 1000 });
  useEffect(() => {
    document.title = "Demo · Stepwell Studio";
  }, []);
  if (demo.data === null) {
    return (
      <main className="main" id="main">
        <EmptyState
          icon={<Skull className="i l" aria-hidden="true" />}
          title="This server is not the demo"
          action={<Command text="stepwell demo" />}
        />
      </main>
    );
  }
  if (!demo.data?.run) return <main className="main" id="main" aria-busy="true" />;
  return <RunningDemo key={demo.data.run} demo={demo.data} />;
}

function RunningDemo({ demo }: { demo: Demo }) {
  const { model, events } = useRunEvents(demo.run);
  const run = useQuery({ ...runQuery(demo.run), refetchInterval: 1000 }).data;
  const now = useNow(500);
  const queries = useQueryClient();
  const [problem, setProblem] = useState("");
  const owner = model.claims.findLast((claim) => claim.worker !== "")?.worker ?? "";
  const worker = demo.workers.find((each) => each.id === owner);
  const crash = crashOf(demo, model, now);
  const killable = run && !isEnded(run.status) && worker?.alive && !crash;
  const kill = async () => {
    try {
      queries.setQueryData(demoQuery.queryKey, await killWorker(owner));
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <main className="main" id="main">
      <div className="demo scroll">
        <div className="demohead">
          <div>
            <h1>A real engine with real workers. Kill one.</h1>
            <p className="t2">
              This demo runs on your machine, in one SQLite file. Nothing leaves it. Stop it, start it again,
              and it goes on.
            </p>
          </div>
          <button type="button" className="btn lg killbtn" disabled={!killable} onClick={() => void kill()}>
            <Skull className="i" aria-hidden="true" />
            {crash && demo.killed_at
              ? `Killed ${coarse(now - Date.parse(demo.killed_at)) || "now"}`
              : "Kill the worker"}
          </button>
        </div>
        {problem && (
          <p className="errline" role="alert">
            {problem}
          </p>
        )}
        <div className="demog">
          <div className="democol">
            {crash && <KillBanner demo={demo} model={model} left={crash.left} />}
            {run && (
              <LiveRun
                run={run}
                model={model}
                now={now}
                demo={demo}
                events={events}
                owner={owner}
                dead={!!crash}
              />
            )}
            <DemoRuns />
          </div>
          <Tour killed={demo.killed_at !== null} />
        </div>
      </div>
    </main>
  );
}

/** Whether the killed worker still has the run, and for how long its lease keeps others away. */
function crashOf(demo: Demo, model: RunModel, now: number): { left: number } | null {
  const killed = instant(demo.killed_at);
  if (killed === null || model.ending) return null;
  const taken = model.claims.findLast((claim) => claim.worker !== "");
  const owner = demo.workers.find((each) => each.id === taken?.worker);
  if (owner && owner.pid !== demo.killed_pid) return null;
  const until = instant(owner?.lease_until) ?? killed + demo.lease_seconds * 1000;
  return { left: Math.max(until - now, 0) };
}

function KillBanner({ demo, model, left }: { demo: Demo; model: RunModel; left: number }) {
  const running = model.rows.findLast((row) => ["running", "retrying"].includes(statusAt(row, model.last)));
  const done = model.rows.filter((row) => row.result !== null).length;
  const seconds = Math.ceil(left / 1000);
  const share = Math.min(left / (demo.lease_seconds * 1000), 1);
  const next = demo.workers.find((each) => each.alive && each.pid !== demo.killed_pid);
  return (
    <div className="killban" role="status">
      <div className="countdown" style={{ "--p": 1 - share } as React.CSSProperties}>
        <b>{seconds}</b>
        <span className="xxs">s</span>
      </div>
      <div className="grow">
        <b>Worker {demo.killed_pid} is dead.</b>{" "}
        {running && (
          <>
            It was in the middle of <code>{running.name}</code>.
          </>
        )}
        <p className="t2 xs">
          {seconds > 0 ? `Its lease on the run ends in ${seconds} s. ` : "Its lease is over. "}
          Then {next ? `worker ${next.pid}` : "another worker"} reads the log and goes on at the same step.
          The {done} steps that are done will not run again: their results are on disk.
        </p>
      </div>
    </div>
  );
}

function LiveRun(props: {
  run: Run;
  model: RunModel;
  now: number;
  demo: Demo;
  events: ReturnType<typeof useRunEvents>["events"];
  owner: string;
  dead: boolean;
}) {
  const { run, model, demo } = props;
  const progress = progressAt(model, model.last);
  const history = model.rows.filter((row) => fromHistory(model, row, model.last)).length;
  const parts = answer(model, {
    status: run.status,
    seq: model.last,
    now: props.now,
    why: "",
    output: run.output,
    error: asProblem(run.error),
  });
  const pidOf = (worker: string) => demo.workers.find((each) => each.id === worker)?.pid;
  const last = props.events.filter((event) => event.kind !== "progress").slice(-5);
  const claimAt = (seq: number) =>
    model.claims.findLast((claim) => claim.worker !== "" && claim.seq <= seq)?.worker ?? "";
  return (
    <section className="card" aria-label="The run that moves">
      <header>
        <Glyph status={props.dead ? "pending" : run.status} />
        <h2 className="mono">{run.key}</h2>
        <span className="xs t3">{run.workflow}</span>
        <span className="grow" />
        {demo.workers
          .filter((each) => each.alive || each.pid === demo.killed_pid)
          .slice(-3)
          .map((each) => {
            const dead = each.pid === demo.killed_pid;
            const owns = each.id === props.owner && !dead;
            return (
              <span
                key={each.id}
                className={`chip st st-${dead ? "failed" : owns ? "running" : "completed"}`}
              >
                <Glyph status={dead ? "failed" : owns ? "running" : "completed"} size={14} />
                worker {each.pid}
                {dead ? ", dead" : owns ? ", has the run" : ", ready"}
              </span>
            );
          })}
        <Link className="btn sm" to="/runs/$id" params={{ id: run.id }}>
          Open
        </Link>
      </header>
      <div className="demolive">
        <p className="answer">
          {props.dead
            ? "Nobody works on it until the lease of the dead worker ends"
            : parts.map((part, index) =>
                typeof part === "string" ? (
                  part
                ) : "code" in part ? (
                  <code key={index}>{part.code}</code>
                ) : (
                  <b key={index}>{part.strong}</b>
                ),
              )}
        </p>
        {progress?.total ? (
          <div className="row">
            <span
              className={`bar wide st-${run.status}`}
              role="progressbar"
              aria-label="Pages"
              aria-valuemin={0}
              aria-valuemax={progress.total}
              aria-valuenow={isEnded(run.status) ? progress.total : progress.done}
            >
              <i
                style={{
                  width: `${(100 * (run.status === "completed" ? progress.total : progress.done)) / progress.total}%`,
                }}
              />
            </span>
            <span className="num xs">
              {run.status === "completed" ? progress.total : progress.done} / {progress.total}
            </span>
            {history > 0 && <span className="xs t3">{history} steps came from history, none ran twice</span>}
          </div>
        ) : null}
        {isEnded(run.status) && <Again />}
      </div>
      <ol className="dlog mono xxs" aria-label="Log of the run">
        {last.map((event) => (
          <li key={event.seq} className={event.kind === "lease_lost" ? "gone" : ""}>
            <span>{event.seq}</span>
            <span>{event.kind}</span>
            <span className="clip">{event.path ? placeName(event.path) : summary(event)}</span>
            <span className="t3">{pidOf(claimAt(event.seq)) ?? ""}</span>
          </li>
        ))}
        {props.dead && (
          <li className="gone">
            <span />
            <span>no heartbeat</span>
            <span />
            <span />
          </li>
        )}
      </ol>
    </section>
  );
}

function Again() {
  const queries = useQueryClient();
  const start = async () => {
    await ask(
      api.POST("/api/v1/runs", { body: { workflow: "nightly_report", input: "2026-11-18" } as never }),
    );
    void queries.invalidateQueries({ queryKey: ["demo"] });
  };
  return (
    <button type="button" className="btn sm" onClick={() => void start()}>
      <Play className="i" aria-hidden="true" />
      Start another
    </button>
  );
}

function DemoRuns() {
  const runs = useQuery({
    queryKey: ["demo runs"],
    queryFn: () => ask(api.GET("/api/v1/runs", { params: { query: { limit: 8 } } })),
    refetchInterval: 1500,
  });
  return (
    <section className="card" aria-label="Runs">
      <header>
        <h2>Runs</h2>
        <span className="grow" />
        <Link className="link xs" to="/runs">
          All runs
        </Link>
      </header>
      <table className="table">
        <thead className="sr">
          <tr>
            <th scope="col">Status</th>
            <th scope="col">Run</th>
            <th scope="col">Workflow</th>
            <th scope="col">Where it is, and why</th>
          </tr>
        </thead>
        <tbody>
          {(runs.data?.runs ?? []).map((run) => {
            const place = where(run);
            return (
              <tr key={run.id}>
                <td>
                  <StatusWord status={run.status} />
                </td>
                <td>
                  <Link className="med rowlink" to="/runs/$id" params={{ id: run.id }}>
                    {run.key || run.id.slice(-8)}
                  </Link>
                </td>
                <td className="mono xs t2">{run.workflow}</td>
                <td className="t2 demowhy">
                  {place.place && <code>{place.place}</code>}{" "}
                  {place.words || (run.status === "running" ? statusWord("running") : "")}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

/** Five things to do; what was done is struck out. */
function Tour({ killed }: { killed: boolean }) {
  const failed = useQuery({
    queryKey: ["demo tour"],
    queryFn: () => ask(api.GET("/api/v1/runs", { params: { query: { limit: 20 } } })),
    refetchInterval: 2000,
  });
  const byKey = (key: string) => failed.data?.runs.find((run) => run.key === key);
  const order = byKey("order-8841");
  const refund = byKey("refund-7781");
  const steps: { title: string; words: string; done: boolean; to: string }[] = [
    { title: "Watch a run move", words: "report-1117 is running here", done: true, to: "/demo" },
    {
      title: "Retry the failed run",
      words: "order-8841 was declined twice; then it works",
      done: order?.status === "completed",
      to: order ? `/runs/${order.id}` : "/runs",
    },
    {
      title: "Approve a refund",
      words: "refund-7781 waits for you",
      done: refund?.status === "completed",
      to: refund ? `/runs/${refund.id}` : "/runs",
    },
    { title: "Kill the worker", words: "a real SIGKILL; the run goes on", done: killed, to: "/demo" },
    {
      title: "Go back in time",
      words: "drag the scrubber, fork from there",
      done: false,
      to: order ? `/runs/${order.id}?seq=3` : "/runs",
    },
  ];
  const current = steps.findIndex((each) => !each.done);
  return (
    <section className="tour" aria-label="Five things, three minutes">
      <h2>Five things, three minutes</h2>
      <ol>
        {steps.map((each, index) => (
          <li key={each.title} className={each.done ? "done" : index === current ? "cur" : ""}>
            <span className="sn">{each.done ? <Glyph status="completed" size={18} /> : index + 1}</span>
            <div>
              <b>
                <Link to={each.to}>{each.title}</Link>
              </b>
              <span className="xs t3">{each.words}</span>
            </div>
          </li>
        ))}
      </ol>
      <p className="xs t3">Then write your own:</p>
      <Command text="stepwell dev flows.py" />
    </section>
  );
}
