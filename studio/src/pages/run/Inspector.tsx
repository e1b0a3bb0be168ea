import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ChevronDown, ChevronRight, MousePointerClick, Play, RotateCcw, X } from "lucide-react";
import { useState } from "react";
import { api, ask } from "../../api/client";
import { DecisionForm } from "../../components/DecisionForm";
import { Glyph } from "../../components/Glyph";
import { JsonView } from "../../components/JsonView";
import { SchemaForm } from "../../components/SchemaForm";
import { useZoneName } from "../../components/Time";
import { attemptsAt, fromHistory, type Row, statusAt } from "../../domain/run";
import { statusWord } from "../../domain/status";
import { absolute, clock, duration } from "../../domain/time";
import { cause, type Problem } from "../../domain/where";
import { LogsSection } from "./LogsSection";
import { RunDialog } from "./RunDialogs";
import type { RunAt } from "./RunPage";
import { useRunActions } from "./useRunActions";

/** What is selected: its attempts, its error, its facts and its data; forms for what waits for a person. */
export function Inspector({ at }: { at: RunAt }) {
  const row = at.model.byPath.get(at.selected) ?? first(at);
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
function first(at: RunAt): Row | undefined {
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
  const [rerun, setRerun] = useState(false);
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
        {attempts.length > 1 && (
          <div className="attempts">
            {attempts.slice(-6).map((each) => (
              <button
                type="button"
                key={each.number}
                aria-pressed={each === attempt}
                aria-label={`Attempt ${each.number}, ${statusWord(each.status)}`}
                onClick={() => setChosen(each.number)}
              >
                <Glyph status={each.status} size={14} />
                {each.number}
                <span>{each.end === null ? "" : duration(each.end - each.start)}</span>
              </button>
            ))}
          </div>
        )}
        {attempt?.error && over && <ErrorBox problem={attempt.error} />}
        {fromHistory(at.model, row, at.seq) && (
          <div className="sec nb">
            <div className="note">
              <RotateCcw className="i s" aria-hidden="true" />
              <span>
                <b>From history.</b> It ran once, before the worker was lost. The next owner read the recorded
                result and did not run it again.
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
                  <dt>{attempt.number > 1 ? "Before it" : "Queued"}</dt>
                  <dd>{duration(attempt.start - attempt.due)}</dd>
                </>
              )}
              <dt>{row.kind === "wait" || row.kind === "timer" ? "Waited" : "Executing"}</dt>
              <dd>{duration((over ? (attempt.end ?? at.now) : at.now) - attempt.start)}</dd>
              <dt>Began</dt>
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
                  <dt>Next try</dt>
                  <dd>in {duration(Math.max(row.retryAt - at.now, 0))}</dd>
                </>
              )}
              <dt>Path</dt>
              <dd className="mono">{row.path}</dd>
            </dl>
          </div>
        )}
        {attempt && row.kind !== "wait" && row.kind !== "timer" && (
          <LogsSection run={at.run.id} path={row.path} attempt={attempt.number} live={attempt.end === null} />
        )}
        {row.result !== null && row.result <= at.seq && <Result at={at} seq={row.result} name={row.name} />}
        {row.result !== null && row.result <= at.seq && (row.kind === "step" || row.kind === "node") && (
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

/** The recorded result, from the event that has it. */
function Result({ at, seq, name }: { at: RunAt; seq: number; name: string }) {
  const event = at.events.find((each) => each.seq === seq);
  const truncated = event?.data.truncated === true;
  const whole = useQuery({
    queryKey: ["event", at.run.id, seq],
    queryFn: () =>
      ask(api.GET("/api/v1/runs/{run_id}/events/{seq}", { params: { path: { run_id: at.run.id, seq } } })),
    enabled: truncated,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const data = (truncated ? whole.data?.data : event?.data) as Record<string, unknown> | undefined;
  if (!data) return null;
  const received =
    typeof data.received === "string"
      ? at.events.findLast((each) => each.kind === "received" && each.data.key === data.received)
      : undefined;
  const value = received ? received.data.payload : (data.result ?? data.output ?? data.state);
  const by = received?.data.by;
  return (
    <div className="sec">
      <h3>
        {received ? "Answer" : "Output"}
        {typeof by === "string" && by && <span className="t2">by {by}</span>}
      </h3>
      <JsonView value={value ?? null} name={name} />
    </div>
  );
}

export function ErrorBox({ problem }: { problem: Problem }) {
  const [open, setOpen] = useState(false);
  const configured = /^(INVALID|UNKNOWN|TEMPLATE|EXPRESSION|MISSING)/.test(problem.code ?? "");
  const frames = problem.traceback?.match(/^ {2}File /gm)?.length ?? 0;
  return (
    <div className="errbox">
      <div className="kind">{configured ? "Fix your node" : "Something went wrong"}</div>
      <div className="msg">{cause(problem)}</div>
      {problem.hint && <p>{problem.hint}</p>}
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
          {open && <pre className="code trace">{problem.traceback}</pre>}
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
          decide={(answer) => void actions.decide(row.path, answer)}
        />
      </div>
    );
  }
  if (row.what === "signal") {
    return (
      <div className="sec">
        <p className="t2">
          Waits for the signal <code>{row.name}</code>.
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
  return (
    <>
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
              <span className="t3 clip">{choice.title}</span>
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
