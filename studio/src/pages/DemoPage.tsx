import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Skull } from "lucide-react";
import { type ReactNode, useCallback, useMemo, useState } from "react";
import type { Run } from "../api/client";
import { type Demo, demoQuery, killWorker } from "../api/demo";
import { runQuery, workflowQuery } from "../api/queries";
import { Canvas, type EdgeLook } from "../canvas/Canvas";
import { looks, size } from "../canvas/graphNodes";
import { Command, EmptyState } from "../components/EmptyState";
import { Glyph } from "../components/Glyph";
import { StatusWord } from "../components/StatusBadge";
import { useNow } from "../components/Time";
import { usePageTitle } from "../components/usePageTitle";
import { summary } from "../domain/eventKinds";
import { edgeState, graphDrawing, type NodeState, nodeFact, nodeStates } from "../domain/graph";
import { placeName } from "../domain/path";
import { fromHistory, type Row, type RunModel, statusAt } from "../domain/run";
import { isEnded } from "../domain/status";
import { coarse, duration, instant } from "../domain/time";
import { where } from "../domain/where";
import { useRunActions } from "./run/useRunActions";
import { useRunEvents } from "./run/useRunEvents";

const LOOK_AGAIN = 1000; // ms

/** The first page of `stepwell demo`: an order that moves, and a worker to kill. */
export function DemoPage() {
  const demo = useQuery({ ...demoQuery, staleTime: 0, refetchInterval: LOOK_AGAIN });
  usePageTitle("Demo");
  if (demo.data === null) {
    return (
      <main className="main" id="main">
        <EmptyState
          whole
          icon={<Skull className="i l" aria-hidden="true" />}
          title="This server does not run the demo"
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
  const run = useQuery({ ...runQuery(demo.run), refetchInterval: LOOK_AGAIN }).data;
  const now = useNow(500);
  const queries = useQueryClient();
  const [problem, setProblem] = useState("");
  const owner = model.claims.findLast((claim) => claim.worker !== "")?.worker ?? "";
  const worker = demo.workers.find((each) => each.id === owner);
  const crash = crashOf(demo, model, now);
  const killable = run && !isEnded(run.status) && worker?.alive && !crash;
  const kill = async () => {
    setProblem("");
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
            <h1>A real engine with a real worker. Kill it.</h1>
            <p className="t2">
              This demo runs on your machine, in one SQLite file, and sends nothing elsewhere. Stop it and
              start it again: its runs continue.
            </p>
          </div>
          <button type="button" className="btn lg killbtn" disabled={!killable} onClick={() => void kill()}>
            <Skull className="i" aria-hidden="true" />
            {crash ? `Killed ${ago(now - crash.at)}` : "Kill the worker"}
          </button>
        </div>
        {problem && (
          <p className="errline" role="alert">
            {problem}
          </p>
        )}
        <div className="demog">
          <div className="democol">
            {run && crash && <KillBanner demo={demo} run={run} model={model} left={crash.left} />}
            {run && !crash && <TakenOver demo={demo} run={run} model={model} now={now} />}
            {run && <LiveRun {...{ run, model, now, demo, events, owner, crash }} />}
            <DemoRuns demo={demo} live={run} model={model} left={crash?.left ?? null} />
          </div>
          <Tour demo={demo} live={run?.key ?? ""} />
        </div>
      </div>
    </main>
  );
}

function ago(ms: number): string {
  const words = coarse(ms);
  return words ? `${words} ago` : "just now";
}

interface Crash {
  at: number; // when the worker was killed
  left: number; // ms that its lease may keep others away
}

/** Whether the killed worker still has the run. On one machine the others often notice before the lease ends. */
function crashOf(demo: Demo, model: RunModel, now: number): Crash | null {
  const killed = instant(demo.killed_at);
  if (killed === null || model.ending) return null;
  const taken = model.claims.findLast((claim) => claim.worker !== "");
  const owner = demo.workers.find((each) => each.id === taken?.worker);
  if (!taken || taken.at > killed || demo.pids[taken.worker] !== demo.killed_pid) return null;
  const whole = demo.lease_seconds * 1000;
  const until = Math.min(instant(owner?.lease_until) ?? Number.POSITIVE_INFINITY, killed + whole);
  return { at: killed, left: Math.min(Math.max(until - now, 0), whole) };
}

/** A step with a result: what a crash cannot undo. */
function isDone(row: Row): boolean {
  return row.result !== null && row.attempts.length > 0 && row.name !== "start";
}

function seconds(left: number): number {
  return Math.ceil(left / 1000);
}

function KillBanner({ demo, run, model, left }: { demo: Demo; run: Run; model: RunModel; left: number }) {
  const active = model.rows.filter((row) => ["running", "retrying"].includes(statusAt(row, model.last)));
  const step = active.findLast((row) => row.attempts.length > 0) ?? active.at(-1);
  const done = [...new Set(model.rows.filter(isDone).map((row) => row.name))];
  const share = Math.min(left / (demo.lease_seconds * 1000), 1);
  const next = demo.workers.find((each) => each.alive && each.pid !== demo.killed_pid);
  return (
    <div className="killban">
      <div className="countdown" role="timer" style={{ "--p": 1 - share } as React.CSSProperties}>
        <b>{seconds(left)}</b>
        <span className="xxs">s</span>
      </div>
      <div className="grow" role="status">
        <b>Worker {demo.killed_pid} is dead.</b>{" "}
        {step && (
          <>
            It was in the middle of <code>{placeOf(step)}</code>.
          </>
        )}
        <p className="t2 xs">
          Its lease on {run.key} expires in {seconds(left)} s at the latest. Then{" "}
          {next ? `worker ${next.pid}` : "another worker"} reads the log and continues at the same step.{" "}
          {done.length > 0 && (
            <>
              Completed steps do not run again: the results of <Names names={done} /> are on disk.
            </>
          )}
        </p>
      </div>
    </div>
  );
}

const TOLD = 20_000; // ms that the page tells of a take-over

/** The worker that took over: how soon, where, and what it did not do again. */
function TakenOver({ demo, run, model, now }: { demo: Demo; run: Run; model: RunModel; now: number }) {
  const killed = instant(demo.killed_at);
  const claim = model.claims.find(
    (each, index) =>
      killed !== null &&
      each.worker !== "" &&
      each.at > killed &&
      model.claims.slice(0, index).some((before) => demo.pids[before.worker] === demo.killed_pid),
  );
  if (killed === null || !claim || now - claim.at > TOLD) return null;
  const again = model.rows.find((row) => row.attempts.some((each) => each.seqStart > claim.seq));
  const kept = model.rows.filter((row) => isDone(row) && fromHistory(model, row, claim.seq)).length;
  const heir = demo.pids[claim.worker];
  return (
    <div className="killban took" role="status">
      <Glyph status="completed" size={28} />
      <div className="grow">
        <b>
          {heir ? `Worker ${heir}` : "Another worker"} took over {duration(claim.at - killed)} after worker{" "}
          {demo.killed_pid} died.
        </b>
        <p className="t2 xs">
          It read the log of {run.key}
          {again && (
            <>
              {" "}
              and continued with <code>{placeOf(again)}</code>
            </>
          )}
          . {kept === 1 ? "One step" : `${kept} steps`} came from history: no completed step ran twice.
        </p>
      </div>
    </div>
  );
}

function Names({ names }: { names: string[] }) {
  return names.map((name, index) => (
    <span key={name}>
      {index > 0 && (index === names.length - 1 ? " and " : ", ")}
      <code>{name}</code>
    </span>
  ));
}

/** A box of the loop by its number: "pack_box, box 3". */
function placeOf(row: Row): string {
  const round = /\[(\d+)\]\/[^/]*$/.exec(row.path);
  return round ? `${row.name}, box ${Number(round[1]) + 1}` : row.name;
}

function LiveRun(props: {
  run: Run;
  model: RunModel;
  now: number;
  demo: Demo;
  events: ReturnType<typeof useRunEvents>["events"];
  owner: string;
  crash: Crash | null;
}) {
  const { run, model, demo, crash } = props;
  const history = model.rows.filter((row) => isDone(row) && fromHistory(model, row, model.last)).length;
  const last = props.events.filter((event) => /^(step|claimed|lease|completed)/.test(event.kind)).slice(-3);
  const claimAt = (seq: number) =>
    model.claims.findLast((claim) => claim.worker !== "" && claim.seq <= seq)?.worker ?? "";
  return (
    <section className="card" aria-label="Live run">
      <header>
        <Glyph status={crash ? "pending" : run.status} />
        <h2 className="mono">{run.key}</h2>
        <span className="xs t3">{run.workflow}</span>
        <span className="grow" />
        <Workers demo={demo} owner={props.owner} ended={isEnded(run.status)} crash={crash !== null} />
        <Link className="btn sm" to="/runs/$id" params={{ id: run.id }}>
          Open
        </Link>
      </header>
      <LiveGraph run={run} model={model} now={props.now} left={crash?.left ?? null} />
      <ol className="dlog mono xxs" aria-label="Log of the run">
        {last.map((event) => {
          const row = model.byPath.get(event.path);
          return (
            <li key={event.seq} className={event.kind === "lease_lost" ? "gone" : ""}>
              <span>{event.seq}</span>
              <span>{event.kind}</span>
              <span className="clip">
                {row ? placeOf(row) : event.path ? placeName(event.path) : brief(summary(event))}
              </span>
              <span className="t3">{demo.pids[claimAt(event.seq)] ?? ""}</span>
            </li>
          );
        })}
        {crash && (
          <li className="gone">
            <span />
            <span>no heartbeat for {Math.max(Math.floor((props.now - crash.at) / 1000), 0)} s</span>
            <span />
            <span />
          </li>
        )}
        {history > 0 && (
          <li className="kept">
            <span />
            <span>⟲ from history</span>
            <span className="clip">
              {history} {history === 1 ? "step" : "steps"}, not run again
            </span>
            <span />
          </li>
        )}
      </ol>
    </section>
  );
}

function brief(text: string): string {
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}

function Workers(props: { demo: Demo; owner: string; ended: boolean; crash: boolean }) {
  const { demo } = props;
  const living = demo.workers.filter((each) => each.alive && each.pid !== demo.killed_pid);
  const killed = props.crash ? [{ id: props.owner, pid: demo.killed_pid }] : [];
  return [...killed, ...living.slice(-2)].map((each) => {
    const dead = each.pid === demo.killed_pid;
    const owns = each.id === props.owner && !dead && !props.ended;
    if (!dead && !owns && !props.crash) return null;
    const status = dead ? "failed" : "completed";
    return (
      <span key={each.id} className={props.crash ? `chip st st-${status}` : "chip"}>
        <Glyph status={status} size={14} />
        worker {each.pid}
        {dead ? ", dead" : owns ? " holds it" : ", waiting for the lease"}
      </span>
    );
  });
}

function LiveGraph(props: { run: Run; model: RunModel; now: number; left: number | null }) {
  const { run, model, now, left } = props;
  const workflow = useQuery(workflowQuery(run.workflow, run.version)).data;
  const drawing = useMemo(() => graphDrawing(workflow?.definition), [workflow]);
  const states = useMemo(() => {
    const known = nodeStates(model, drawing, model.last, (row) => nodeFact(row, model.last, now, duration));
    return left === null ? known : orphaned(known, seconds(left));
  }, [model, drawing, now, left]);
  const nodes = useMemo(() => looks(drawing, states), [drawing, states]);
  const edges = useMemo(
    () =>
      new Map<string, EdgeLook>(
        drawing.edges.map((edge) => [edge.id, { state: edgeState(edge, model, states), label: edge.label }]),
      ),
    [drawing, model, states],
  );
  const sizeOf = useCallback((id: string) => size(drawing.nodes.find((node) => node.id === id)), [drawing]);
  if (!workflow) return <div className="canvas democ" aria-busy="true" />;
  return (
    <div className="democ">
      <Canvas
        label={`Graph of ${run.workflow}, ${run.key}, live`}
        layoutKey={`${run.workflow} ${run.version} `}
        drawing={drawing}
        sizeOf={sizeOf}
        nodes={nodes}
        edges={edges}
        selected=""
        focus={null}
        select={ignore}
      />
    </div>
  );
}

function ignore(): void {}

/** What runs while its worker is dead: nobody has it. */
function orphaned(states: Map<string, NodeState>, left: number): Map<string, NodeState> {
  return new Map(
    [...states].map(([id, state]) =>
      state.status === "running" || state.status === "retrying"
        ? [
            id,
            {
              ...state,
              status: "pending",
              fact: state.total ? `nobody, ${left} s` : "nobody",
            } as NodeState,
          ]
        : [id, state],
    ),
  );
}

function DemoRuns(props: { demo: Demo; live: Run | undefined; model: RunModel; left: number | null }) {
  const { demo, live, model, left } = props;
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
            <th scope="col">Action</th>
          </tr>
        </thead>
        <tbody>
          {live && (
            <DemoRow
              run={live}
              gone={left !== null}
              words={left === null ? nowAt(model) : `worker dead, taken over in ${seconds(left)} s`}
            >
              <Link className="btn sm" to="/runs/$id" params={{ id: live.id }}>
                Watch
              </Link>
            </DemoRow>
          )}
          <SeededRow id={demo.seeded["order-8841"]} action={RetryOrOpen} />
          <SeededRow id={demo.seeded["refund-7781"]} action={ApproveOrOpen} />
          <SeededRow id={demo.seeded["report-1116"]} action={Open} />
        </tbody>
      </table>
    </section>
  );
}

/** Where the order is: "pack_parcel, 2 of 12 boxes". */
function nowAt(model: RunModel): string {
  const row = model.rows.findLast(
    (each) => statusAt(each, model.last) === "running" && !/\[\d+\]/.test(each.path),
  );
  const count = row?.counts.at(-1);
  return row ? `${row.name}${count?.total ? `, ${count.done} of ${count.total} boxes` : ""}` : "";
}

function SeededRow(props: { id: string | undefined; action: (props: { run: Run }) => ReactNode }) {
  const run = useQuery({
    ...runQuery(props.id ?? ""),
    enabled: !!props.id,
    refetchInterval: LOOK_AGAIN,
  }).data;
  if (!run) return null;
  const Action = props.action;
  return (
    <DemoRow run={run}>
      <Action run={run} />
    </DemoRow>
  );
}

function DemoRow(props: { run: Run; gone?: boolean; words?: string; children: ReactNode }) {
  const { run, gone, words } = props;
  const place = where(run);
  return (
    <tr>
      <td>
        <StatusWord status={gone ? "pending" : run.status} />
      </td>
      <td>
        <Link className="med rowlink" to="/runs/$id" params={{ id: run.id }}>
          {run.key || run.id.slice(-8)}
        </Link>
      </td>
      <td className="mono xs t2">{run.workflow}</td>
      <td className="t2 demowhy">
        {(!isEnded(run.status) && words) || (
          <>
            {place.place && <code>{place.place}</code>} {place.words}
          </>
        )}
      </td>
      <td className="num">{props.children}</td>
    </tr>
  );
}

function Open({ run }: { run: Run }) {
  return (
    <Link className="btn sm" to="/runs/$id" params={{ id: run.id }}>
      Open
    </Link>
  );
}

function RetryOrOpen({ run }: { run: Run }) {
  const { busy, retry } = useRunActions(run.id);
  if (run.status !== "failed") return <Open run={run} />;
  return (
    <button type="button" className="btn sm primary" disabled={busy} onClick={() => void retry()}>
      Retry
    </button>
  );
}

function ApproveOrOpen({ run }: { run: Run }) {
  if (run.status !== "suspended") return <Open run={run} />;
  return (
    <Link className="btn sm" to="/approvals">
      Approve…
    </Link>
  );
}

/** Five things to do; what was done is struck out. */
function Tour({ demo, live }: { demo: Demo; live: string }) {
  const order = useSeeded(demo, "order-8841");
  const refund = useSeeded(demo, "refund-7781");
  const steps: { title: string; words: string; done: boolean; to: string }[] = [
    { title: "Watch a run move", words: `${live} is running here`, done: true, to: `/runs/${demo.run}` },
    {
      title: "Retry the failed run",
      words: "order-8841 fails twice, then works",
      done: order?.status === "completed",
      to: `/runs/${order?.id ?? ""}`,
    },
    {
      title: "Approve a refund",
      words: "refund-7781 waits for you",
      done: refund?.status === "completed",
      to: "/approvals",
    },
    {
      title: "Kill the worker",
      words: "a real SIGKILL; the run continues",
      done: demo.killed_at !== null,
      to: "/demo",
    },
    {
      title: "Go back in time",
      words: "drag the scrubber, fork from there",
      done: false,
      to: `/runs/${demo.run}`,
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
      <Command text="stepwell init hello" />
    </section>
  );
}

function useSeeded(demo: Demo, key: string): Run | undefined {
  const id = demo.seeded[key] ?? "";
  return useQuery({ ...runQuery(id), enabled: id !== "" }).data;
}
