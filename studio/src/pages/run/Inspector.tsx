import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import {
  ChevronDown,
  ChevronRight,
  GitFork,
  MousePointerClick,
  Play,
  RotateCcw,
  Undo2,
  X,
} from "lucide-react";
import { Fragment, useState } from "react";
import { api, ask } from "../../api/client";
import { stateQuery, workflowQuery } from "../../api/queries";
import { DecisionForm } from "../../components/DecisionForm";
import { Glyph } from "../../components/Glyph";
import { JsonView } from "../../components/JsonView";
import { SchemaForm } from "../../components/SchemaForm";
import { useZoneName } from "../../components/Time";
import { differences } from "../../domain/differences";
import { errorKind, fieldOf, isConfigured } from "../../domain/errors";
import { usageWords } from "../../domain/eventKinds";
import { nodeOf } from "../../domain/graph";
import { placeName } from "../../domain/path";
import { attemptsAt, fromHistory, type Row, runStatusAt, statusAt, usedAt } from "../../domain/run";
import { statusWord } from "../../domain/status";
import { absolute, clock, duration } from "../../domain/time";
import { brief, cause, type Problem } from "../../domain/where";
import { LogLines, useLogs } from "./LogLines";
import { RunDialog } from "./RunDialogs";
import type { RunAt } from "./RunPage";
import { useRunActions } from "./useRunActions";

/** What is selected: its attempts, its error, its facts and its data; forms for what waits for a person. */
export function Inspector({ at }: { at: RunAt }) {
  const row = at.model.byPath.get(at.selected) ?? focusOf(at);
  if (!row) {
    return (
      <section className="inspector" aria-label="Details">
        <div className="sec nb t3 inspempty">
          <MousePointerClick className="i" aria-hidden="true" />
          Select a step to see its attempts and data.
        </div>
      </section>
    );
  }
  return <RowInspector key={row.path} at={at} row={row} />;
}

/** What deserves a look when nothing is selected: what failed, then what waits, then what runs. */
export function focusOf(at: RunAt): Row | undefined {
  const cause = at.live ? at.model.byPath.get(at.model.ending?.error?.path ?? "") : undefined;
  if (cause) return cause;
  for (const status of ["failed", "timed_out", "suspended", "running"]) {
    const row = at.model.rows.findLast((each) => statusAt(each, at.seq) === status);
    if (row) return row;
  }
  return at.model.rows.findLast((row) => row.first <= at.seq && statusAt(row, at.seq) !== "skipped");
}

function RowInspector({ at, row }: { at: RunAt; row: Row }) {
  const attempts = attemptsAt(row, at.seq);
  const [chosen, setChosen] = useState<number | null>(null);
  const attempt = attempts.find((each) => each.number === chosen) ?? attempts.at(-1);
  const status = statusAt(row, at.seq);
  const zone = useZoneName();
  const used = usageWords(usedAt([row], at.seq));
  const shown = row.details.findLast((each) => each.seq <= at.seq && each.attempt === attempt?.number);
  const details = Object.entries(shown?.values ?? {});
  const [rerun, setRerun] = useState(false);
  const canRerun =
    (row.kind === "step" || row.kind === "node" || row.kind === "child") &&
    row.result !== null &&
    row.result <= at.seq;
  const over = attempt && attempt.seqEnd !== null && attempt.seqEnd <= at.seq;
  const worker =
    attempt?.worker ||
    (attempt && at.model.claims.findLast((claim) => claim.worker && claim.at <= attempt.start)?.worker);
  return (
    <section className="inspector" aria-label={`${row.name}, ${statusWord(status)}`}>
      <div className="insp-h">
        <Glyph status={status} />
        <h2 className="clip">{row.name}</h2>
        <span className="tag">{row.kind === "wait" ? row.what : row.kind}</span>
        <span className="grow" />
        {at.selected && (
          <button type="button" className="iconbtn sm" aria-label="Close" onClick={() => at.select("")}>
            <X className="i" aria-hidden="true" />
          </button>
        )}
      </div>
      <div className="inspbody">
        {row.attempts.length > 1 && (
          <div className="attempts">
            {row.attempts.slice(-6).map((each) => {
              const later = each.seqStart > at.seq;
              const open = each.seqEnd === null || each.seqEnd > at.seq;
              const status = later || open ? "running" : each.status;
              return (
                <button
                  type="button"
                  key={each.number}
                  disabled={later}
                  aria-pressed={each === attempt}
                  aria-label={`Attempt ${each.number}, ${later ? "later" : statusWord(status)}`}
                  onClick={() => setChosen(each.number)}
                >
                  {!later && <Glyph status={status} size={14} />}
                  {each.number}
                  <span>{later ? "later" : open ? "" : duration((each.end ?? at.now) - each.start)}</span>
                </button>
              );
            })}
          </div>
        )}
        {attempt?.error && over && <ErrorBox problem={attempt.error} at={at} />}
        {at.model.compensations.has(row.path) && (
          <div className="sec nb">
            <div className="note">
              <Undo2 className="i s" aria-hidden="true" />
              <span>
                <b>Undone.</b> {at.model.compensations.get(row.path)}
              </span>
            </div>
          </div>
        )}
        {fromHistory(at.model, row, at.seq) && (
          <div className="sec nb">
            <div className="note">
              <RotateCcw className="i s" aria-hidden="true" />
              <span>
                <b>From history.</b> This step ran once, before its worker was lost. The next worker read the
                recorded result and did not run it again.
              </span>
            </div>
          </div>
        )}
        {row.open && at.live && status === "suspended" && <Answer at={at} row={row} />}
        {attempt && (
          <div className="sec">
            <dl className="facts">
              {attempt.start > attempt.due && (
                <>
                  <dt>{attempt.number > 1 ? "Retry delay" : "Queued"}</dt>
                  <dd>{duration(attempt.start - attempt.due)}</dd>
                </>
              )}
              <dt>{row.kind === "wait" || row.kind === "timer" ? "Waited" : "Executing"}</dt>
              <dd>{duration((over ? (attempt.end ?? at.now) : at.now) - attempt.start)}</dd>
              <dt>Started</dt>
              <dd title={absolute(attempt.start, zone)}>{clock(attempt.start, zone, true)}</dd>
              {worker && (
                <>
                  <dt>Worker</dt>
                  <dd className="mono">{worker}</dd>
                </>
              )}
              {over && (
                <>
                  <dt>Recorded</dt>
                  <dd>
                    <button
                      type="button"
                      className="link linkbtn"
                      onClick={() => at.goTo(attempt.seqEnd ?? at.seq)}
                    >
                      seq {attempt.seqEnd}
                    </button>
                  </dd>
                </>
              )}
              {row.child && (
                <>
                  <dt>Child</dt>
                  <dd>
                    <Link className="link mono" to="/runs/$id" params={{ id: row.child }}>
                      {row.note || row.child}
                    </Link>
                  </dd>
                </>
              )}
              {row.retryAt !== null && status === "retrying" && (
                <>
                  <dt>Next attempt</dt>
                  <dd>in {duration(Math.max(row.retryAt - at.now, 0))}</dd>
                </>
              )}
              {used && (
                <>
                  <dt>Model</dt>
                  <dd className="wraps">{used}</dd>
                </>
              )}
              {details.map(([name, value]) => (
                <Fragment key={name}>
                  <dt className="clip" title={name}>
                    {name}
                  </dt>
                  <dd title={brief(value, 400)}>{brief(value, 120)}</dd>
                </Fragment>
              ))}
              <dt>Path</dt>
              <dd className="mono">{row.path}</dd>
            </dl>
          </div>
        )}
        {attempt && <RowData at={at} row={row} attempt={attempt.number} open={attempt.end === null} />}
        {!at.live && <PastPart at={at} />}
        {canRerun && at.live && (
          <div className="sec">
            <button type="button" className="btn sm" onClick={() => setRerun(true)}>
              <Play className="i" aria-hidden="true" />
              Rerun from here…
            </button>
          </div>
        )}
      </div>
      {rerun && <RunDialog at={at} action="rerun-from" step={row} close={() => setRerun(false)} />}
    </section>
  );
}

/** Input, output and logs of an attempt, one at a time. */
function RowData(props: { at: RunAt; row: Row; attempt: number; open: boolean }) {
  const { at, row } = props;
  const result = row.result !== null && row.result <= at.seq ? row.result : 0;
  const input = inputOf(at, row);
  const logs = useLogs(
    at.run.id,
    row.path,
    props.attempt,
    props.open,
    row.kind !== "wait" && row.kind !== "timer",
  );
  const lines = logs.data?.lines.length ?? 0;
  const tabs = [
    ...(input === undefined ? [] : ["Input"]),
    ...(result ? [row.kind === "wait" ? "Answer" : "Output"] : []),
    ...(lines ? [`Logs ${lines}`] : []),
  ];
  const [chosen, setChosen] = useState("");
  const shown =
    tabs.find((each) => each.split(" ")[0] === chosen) ??
    tabs.find((each) => /^(Out|Ans)/.test(each)) ??
    tabs[0];
  if (!shown) return null;
  return (
    <div className="sec">
      <div className="seg datatabs" role="group" aria-label="Data">
        {tabs.map((each) => (
          <button
            type="button"
            key={each}
            aria-pressed={each === shown}
            onClick={() => setChosen(each.split(" ")[0] ?? "")}
          >
            {each}
          </button>
        ))}
      </div>
      {shown === "Input" && <JsonView value={input} name={`${row.name}-input`} />}
      {/^(Output|Answer)$/.test(shown) && <Result at={at} seq={result} name={row.name} />}
      {shown.startsWith("Logs") && logs.data && <LogLines lines={logs.data.lines} more={logs.data.more} />}
    </div>
  );
}

/** What a step was called with, if the settings keep that. */
function inputOf(at: RunAt, row: Row): unknown {
  const facts = at.events.filter((event) => event.path === row.path && event.seq <= at.seq);
  return facts.findLast((event) => event.data.args !== undefined && event.data.args !== null)?.data.args;
}

/** The recorded result, from the event that has it. */
function Result({ at, seq, name }: { at: RunAt; seq: number; name: string }) {
  const event = at.events.find((each) => each.seq === seq);
  const truncated = event?.data.truncated === true;
  const [wanted, setWanted] = useState(false);
  const whole = useQuery({
    queryKey: ["event", at.run.id, seq],
    queryFn: () =>
      ask(api.GET("/api/v1/runs/{run_id}/events/{seq}", { params: { path: { run_id: at.run.id, seq } } })),
    enabled: truncated && wanted,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const data = (truncated ? whole.data?.data : event?.data) as Record<string, unknown> | undefined;
  if (truncated && !data) {
    return (
      <p className="t2 row g1">
        {Math.round(Number(event?.data.bytes) / 1024).toLocaleString("en")} KB, not loaded.
        <button type="button" className="btn sm" disabled={wanted} onClick={() => setWanted(true)}>
          Load full
        </button>
      </p>
    );
  }
  if (!data) return null;
  const received =
    typeof data.received === "string"
      ? at.events.findLast((each) => each.kind === "received" && each.data.key === data.received)
      : undefined;
  const value = received ? received.data.payload : (data.result ?? data.output ?? data.state);
  const by = received?.data.by;
  return (
    <>
      {typeof by === "string" && by && <p className="t2 xs">by {by}</p>}
      <JsonView value={value ?? null} name={name} />
    </>
  );
}

/** In the past: what the state was, and the only thing that can be done there. */
function PastPart({ at }: { at: RunAt }) {
  const [fork, setFork] = useState(false);
  const point = at.model.checkpoints.findLast((seq) => seq <= at.seq) ?? 0;
  const before = at.model.checkpoints.findLast((seq) => seq < point) ?? 0;
  const now = useQuery(stateQuery(at.run.id, point));
  const then = useQuery(stateQuery(at.run.id, before));
  const machine = at.run.kind === "machine";
  const part = (data: typeof now.data) => (machine ? data?.state : data?.outputs) ?? {};
  const changes =
    point && now.data && (!before || then.data) ? differences(part(then.data), part(now.data)) : [];
  const writer = at.model.rows.find((row) => row.result === point);
  return (
    <>
      <div className="sec">
        <h3>At seq {at.seq}</h3>
        <dl className="facts">
          <dt>Run</dt>
          <dd>{statusWord(runStatusAt(at.model, at.seq))}</dd>
          {point > 0 && (
            <>
              <dt>Checkpoint</dt>
              <dd>
                {at.model.checkpoints.indexOf(point) + 1}
                {writer ? `, written by ${writer.name}` : ""}
              </dd>
            </>
          )}
        </dl>
        {changes.length > 0 && (
          <ul className="changes" aria-label="Changed at this checkpoint">
            {changes.slice(0, 8).map((change) => (
              <li key={change.path} className={`ch-${change.kind}`}>
                <code>{machine ? change.path : placeName(change.path)}</code>
                {change.kind !== "added" && <del>{brief(change.old, 80)}</del>}
                {change.kind !== "removed" && <ins>{brief(change.value, 80)}</ins>}
              </li>
            ))}
          </ul>
        )}
      </div>
      <div className="sec">
        <p className="t2">
          A fork starts a <b>new run</b> from this checkpoint with this state, or with your edits.{" "}
          <b>{at.run.key || "This run"} stays as it is.</b>
        </p>
        <button type="button" className="btn violet" disabled={!point} onClick={() => setFork(true)}>
          <GitFork className="i" aria-hidden="true" />
          Fork this state…
        </button>
      </div>
      {fork && <RunDialog at={at} action="fork" close={() => setFork(false)} />}
    </>
  );
}

const PLAIN = new Set(["ERROR", "STEP_FAILED", "NODE_FAILED", "RUN_FAILED"]); // they say nothing more

/** What went wrong: whose turn it is, the words of the error, what to do, and where it came from. */
export function ErrorBox({ problem, at }: { problem: Problem; at?: RunAt }) {
  const [open, setOpen] = useState(false);
  const frames = problem.traceback?.match(/^ {2}File /gm)?.length ?? 0;
  const field = isConfigured(problem) ? fieldOf(problem) : "";
  const node = at?.run.kind === "graph" && problem.path ? nodeOf(problem.path) : "";
  return (
    <div className="errbox">
      <div className="kind">
        {errorKind(problem)}{" "}
        {problem.code && !PLAIN.has(problem.code) && <code className="xs">{problem.code}</code>}
      </div>
      <div className="msg">{cause(problem)}</div>
      {problem.hint && <p>{problem.hint}</p>}
      {at && node && isConfigured(problem) && (
        <p>
          <Link
            className="link"
            to="/workflows/$name"
            params={{ name: at.run.workflow }}
            search={{ node } as never}
          >
            {field ? `Open ${node}, field ${field}` : `Open ${node} in the workflow`}
          </Link>
        </p>
      )}
      {problem.traceback && (
        <>
          <button type="button" className="disc" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? (
              <ChevronDown className="i s" aria-hidden="true" />
            ) : (
              <ChevronRight className="i s" aria-hidden="true" />
            )}
            Traceback, {frames} {frames === 1 ? "frame" : "frames"}
          </button>
          {open && (
            <pre className="code trace" tabIndex={0}>
              {problem.traceback}
            </pre>
          )}
        </>
      )}
    </div>
  );
}

interface TriggerChoice {
  name: string;
  form?: unknown;
  title?: string;
}

/** What a person can do here: decide an approval, take a transition, send a signal. */
function Answer({ at, row }: { at: RunAt; row: Row }) {
  const actions = useRunActions(at.run.id);
  const [opened, setOpened] = useState("");
  const workflow = useQuery({
    ...workflowQuery(at.run.workflow, at.run.version),
    enabled: at.run.kind === "machine",
  });
  const definition = workflow.data?.definition as
    | { ends?: string[]; transitions?: { name: string; target: string }[] }
    | undefined;
  const targets = definition?.transitions ?? [];
  const data = row.open?.data ?? {};
  if (row.what === "approval") {
    return (
      <div className="sec">
        {row.note && <p className="strong asktitle">{row.note}</p>}
        <DecisionForm
          form={data.form}
          busy={actions.busy}
          problem={actions.problem}
          field={actions.field}
          decide={(answer, reason) => void actions.decide(row.path, answer, reason)}
        />
      </div>
    );
  }
  if (row.what === "signal") {
    return (
      <div className="sec">
        <p className="t2">
          Waiting for the signal <code>{row.name}</code>.
        </p>
        <SchemaForm
          schema={data.form}
          problem={actions.problem ? { field: actions.field, message: actions.problem } : null}
          submit={(value) => void actions.signal(row.name, value ?? null)}
        >
          <div className="row apbtns">
            <button type="submit" className="btn primary" disabled={actions.busy}>
              Send signal
            </button>
          </div>
        </SchemaForm>
      </div>
    );
  }
  const choices = (data.choices as TriggerChoice[] | undefined) ?? [];
  const targetOf = (name: string) => targets.find((each) => each.name === name)?.target ?? "";
  const ends = definition?.ends ?? [];
  return (
    <>
      <p className="sec nb t2">Waiting for one of these triggers.</p>
      {choices.map((choice) => {
        const open = opened === choice.name;
        return (
          <div className="trig" key={choice.name}>
            <button
              type="button"
              className="trigh"
              aria-expanded={open}
              onClick={() => setOpened(open ? "" : choice.name)}
            >
              {open ? (
                <ChevronDown className="i s" aria-hidden="true" />
              ) : (
                <ChevronRight className="i s" aria-hidden="true" />
              )}
              <code className="med">{choice.name}</code>
              <span className="t3 clip">
                {targetOf(choice.name) && `→ ${targetOf(choice.name)}`}
                {ends.includes(targetOf(choice.name)) && ", the end"} {choice.title}
              </span>
            </button>
            {open && (
              <div className="trigb">
                <SchemaForm
                  schema={choice.form}
                  problem={actions.problem ? { field: actions.field, message: actions.problem } : null}
                  submit={(value) => void actions.trigger(choice.name, value)}
                >
                  <div className="row apbtns">
                    <button type="submit" className="btn primary" disabled={actions.busy}>
                      {choice.name}
                    </button>
                    {targetOf(choice.name) && (
                      <span className="t3 xs">
                        Then the run is at <code>{targetOf(choice.name)}</code>
                      </span>
                    )}
                  </div>
                </SchemaForm>
              </div>
            )}
          </div>
        );
      })}
    </>
  );
}
