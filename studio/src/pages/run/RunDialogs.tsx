import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { RotateCcw, X } from "lucide-react";
import { type ReactNode, useId, useState } from "react";
import { stateQuery } from "../../api/queries";
import { Dialog } from "../../components/Dialog";
import { Glyph } from "../../components/Glyph";
import type { Row } from "../../domain/run";
import type { RunAt } from "./RunPage";
import { useRunActions } from "./useRunActions";

export type ActionName =
  | "rerun"
  | "rerun-from"
  | "fork"
  | "cancel"
  | "signal"
  | "compensate"
  | "delete"
  | "hold"
  | "skip"
  | "force";

/** One dialog for each verb. It says what will run, and its button is named after the act. */
export function RunDialog(props: { at: RunAt; action: ActionName; close: () => void; step?: Row }) {
  const shared = { at: props.at, close: props.close };
  switch (props.action) {
    case "rerun":
      return <RerunDialog {...shared} />;
    case "rerun-from":
      return props.step ? <RerunFromDialog {...shared} step={props.step} /> : null;
    case "fork":
      return <ForkDialog {...shared} />;
    case "cancel":
      return <CancelDialog {...shared} />;
    case "signal":
      return <SignalDialog {...shared} />;
    case "compensate":
      return <CompensateDialog {...shared} />;
    case "delete":
      return <DeleteDialog {...shared} />;
    case "hold":
      return (
        <ReasonDialog
          {...shared}
          title="Hold this run?"
          lead="It begins nothing new until somebody releases it. Steps that run now finish."
          keep="Let it run"
          word="Hold the run"
          act={(actions, reason) => actions.hold(reason)}
        />
      );
    case "force":
      return (
        <ReasonDialog
          {...shared}
          title="End this run by force?"
          lead="It ends at once, and none of its code runs again, not even its cleanup. Cancel lets it clean up."
          keep="Keep it"
          word="End the run by force"
          danger
          act={(actions, reason) => actions.force(reason)}
        />
      );
    case "skip":
      return <SkipDialog {...shared} />;
  }
}

interface DialogProps {
  at: RunAt;
  close: () => void;
}

function Frame(props: {
  title: string;
  lead: ReactNode;
  close: () => void;
  problem: string;
  children?: ReactNode;
  foot: ReactNode;
}) {
  return (
    <Dialog label={props.title} className="rdlg" close={props.close}>
      <div className="shead">
        <h2>{props.title}</h2>
        <span className="grow" />
        <button type="button" className="iconbtn" aria-label="Close" onClick={props.close}>
          <X className="i" aria-hidden="true" />
        </button>
      </div>
      <div className="rbody">
        <p className="t2">{props.lead}</p>
        {props.children}
        {props.problem && (
          <p className="errline" role="alert">
            {props.problem}
          </p>
        )}
      </div>
      <div className="rfoot">{props.foot}</div>
    </Dialog>
  );
}

/** JSON that can be edited; `value` is undefined while it cannot be read. */
function useJson(start: unknown) {
  const [text, setText] = useState(() => JSON.stringify(start ?? null, null, 2));
  let value: unknown;
  let problem = "";
  try {
    value = JSON.parse(text);
  } catch (error) {
    problem = `This is not JSON: ${(error as Error).message}`;
  }
  return { text, setText, value, problem };
}

function JsonField(props: { label: string; json: ReturnType<typeof useJson>; rows?: number }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{props.label}</label>
      <textarea
        id={id}
        className={props.json.problem ? "input mono bad" : "input mono"}
        rows={props.rows ?? 7}
        spellCheck={false}
        value={props.json.text}
        onChange={(event) => props.json.setText(event.target.value)}
      />
      {props.json.problem && <span className="err">{props.json.problem}</span>}
    </div>
  );
}

function useOpened(close: () => void) {
  const navigate = useNavigate();
  return (started: { id: string } | null) => {
    if (!started) return;
    close();
    void navigate({ to: "/runs/$id", params: { id: started.id } });
  };
}

function RerunDialog({ at, close }: DialogProps) {
  const actions = useRunActions(at.run.id);
  const json = useJson(at.run.input);
  const opened = useOpened(close);
  return (
    <Frame
      title={`Rerun ${at.run.workflow}`}
      lead="Starts a new run from the beginning. Every step runs again, with its effects; this run stays as it is."
      close={close}
      problem={actions.problem}
      foot={
        <>
          <span className="grow" />
          <button type="button" className="btn" onClick={close}>
            Close
          </button>
          <button
            type="button"
            className="btn primary"
            disabled={actions.busy || json.problem !== ""}
            onClick={async () => opened(await actions.rerun(json.value))}
          >
            Rerun
          </button>
        </>
      }
    >
      <JsonField label="Input" json={json} />
    </Frame>
  );
}

function RerunFromDialog({ at, close, step }: DialogProps & { step: Row }) {
  const actions = useRunActions(at.run.id);
  const opened = useOpened(close);
  const kept = at.model.rows.filter((row) => row.result !== null && row.first < step.first);
  return (
    <Frame
      title={`Rerun from ${step.name}`}
      lead={`Starts a new run that keeps the results from before ${step.name}, and runs it and everything after it again.`}
      close={close}
      problem={actions.problem}
      foot={
        <>
          <span className="grow" />
          <button type="button" className="btn" onClick={close}>
            Close
          </button>
          <button
            type="button"
            className="btn primary"
            disabled={actions.busy}
            onClick={async () => opened(await actions.rerunFrom(step.path))}
          >
            Rerun from {step.name}
          </button>
        </>
      }
    >
      <div className="rcols">
        <div>
          <h3 className="h3">From history</h3>
          <ul className="rl">
            {kept.slice(0, 8).map((row) => (
              <li key={row.path}>
                <RotateCcw className="i s" aria-hidden="true" />
                <code>{row.name}</code>
              </li>
            ))}
            {kept.length > 8 && <li className="t3">and {kept.length - 8} more</li>}
            {!kept.length && <li className="t3">nothing</li>}
          </ul>
        </div>
        <div>
          <h3 className="h3">Will run</h3>
          <ul className="rl">
            <li>
              <Glyph status="running" size={14} />
              <code>{step.name}</code>
            </li>
            <li className="t2">and everything after it</li>
          </ul>
        </div>
      </div>
    </Frame>
  );
}

function ForkDialog({ at, close }: DialogProps) {
  const point = at.model.checkpoints.findLast((seq) => seq <= at.seq) ?? 0;
  const state = useQuery(stateQuery(at.run.id, point));
  if (!point) {
    return (
      <Frame
        title="Fork"
        lead="This run has no checkpoint yet: a step or transition must complete first."
        close={close}
        problem=""
        foot={
          <button type="button" className="btn" onClick={close}>
            Close
          </button>
        }
      />
    );
  }
  if (!state.data) return null;
  const machine = at.run.kind === "machine";
  return (
    <ForkForm
      at={at}
      close={close}
      point={point}
      machine={machine}
      start={machine ? state.data.state : state.data.outputs}
    />
  );
}

function ForkForm(props: DialogProps & { point: number; machine: boolean; start: unknown }) {
  const actions = useRunActions(props.at.run.id);
  const opened = useOpened(props.close);
  const json = useJson(props.start);
  const edits = () => {
    if (JSON.stringify(json.value) === JSON.stringify(props.start)) return {};
    if (props.machine) return { state: json.value };
    const before = (props.start ?? {}) as Record<string, unknown>;
    const after = (json.value ?? {}) as Record<string, unknown>;
    const changed = Object.entries(after).filter(
      ([name, value]) => JSON.stringify(before[name]) !== JSON.stringify(value),
    );
    return changed.length ? { outputs: Object.fromEntries(changed) } : {};
  };
  return (
    <Frame
      title={`Fork at seq ${props.point}`}
      lead={`Starts a new run that begins as this one was at seq ${props.point}. What was done up to there is not done again; this run stays as it is.`}
      close={props.close}
      problem={actions.problem}
      foot={
        <>
          <span className="grow" />
          <button type="button" className="btn" onClick={props.close}>
            Close
          </button>
          <button
            type="button"
            className="btn primary"
            disabled={actions.busy || json.problem !== ""}
            onClick={async () => opened(await actions.fork(props.point, edits()))}
          >
            Fork
          </button>
        </>
      }
    >
      <JsonField label={props.machine ? "State" : "Results of the steps so far"} json={json} rows={11} />
    </Frame>
  );
}

function CancelDialog({ at, close }: DialogProps) {
  const actions = useRunActions(at.run.id);
  const [reason, setReason] = useState("");
  const id = useId();
  return (
    <Frame
      title="Cancel this run?"
      lead="Steps that run now finish or are interrupted and clean up; nothing after them starts."
      close={close}
      problem={actions.problem}
      foot={
        <>
          <span className="grow" />
          <button type="button" className="btn" onClick={close}>
            Keep it
          </button>
          <button
            type="button"
            className="btn danger"
            disabled={actions.busy}
            onClick={async () => {
              if (await actions.cancel(reason)) close();
            }}
          >
            Cancel the run
          </button>
        </>
      }
    >
      <div className="field">
        <label htmlFor={id}>
          Reason <span className="t3">kept in the log</span>
        </label>
        <input id={id} className="input" value={reason} onChange={(event) => setReason(event.target.value)} />
      </div>
    </Frame>
  );
}

function SignalDialog({ at, close }: DialogProps) {
  const actions = useRunActions(at.run.id);
  const waits = at.model.rows.filter((row) => row.open && row.what === "signal").map((row) => row.name);
  const [name, setName] = useState(waits[0] ?? "");
  const json = useJson(null);
  const id = useId();
  return (
    <Frame
      title="Signal"
      lead={
        waits.length
          ? `The run waits for ${waits.join(", ")}.`
          : "The run takes it when it waits for a signal of that name."
      }
      close={close}
      problem={actions.problem}
      foot={
        <>
          <span className="grow" />
          <button type="button" className="btn" onClick={close}>
            Close
          </button>
          <button
            type="button"
            className="btn primary"
            disabled={actions.busy || !name || json.problem !== ""}
            onClick={async () => {
              if (await actions.signal(name, json.value)) close();
            }}
          >
            Send signal
          </button>
        </>
      }
    >
      <div className="field">
        <label htmlFor={id}>Name</label>
        <input
          id={id}
          className="input mono"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </div>
      <JsonField label="Payload" json={json} rows={4} />
    </Frame>
  );
}

function ReasonDialog(
  props: DialogProps & {
    title: string;
    lead: string;
    keep: string;
    word: string;
    danger?: boolean;
    act: (actions: ReturnType<typeof useRunActions>, reason: string) => Promise<unknown>;
  },
) {
  const actions = useRunActions(props.at.run.id);
  const [reason, setReason] = useState("");
  const id = useId();
  return (
    <Frame
      title={props.title}
      lead={props.lead}
      close={props.close}
      problem={actions.problem}
      foot={
        <>
          <span className="grow" />
          <button type="button" className="btn" onClick={props.close}>
            {props.keep}
          </button>
          <button
            type="button"
            className={props.danger ? "btn danger" : "btn primary"}
            disabled={actions.busy}
            onClick={async () => {
              if (await props.act(actions, reason)) props.close();
            }}
          >
            {props.word}
          </button>
        </>
      }
    >
      <div className="field">
        <label htmlFor={id}>
          Reason <span className="t3">kept in the log</span>
        </label>
        <input id={id} className="input" value={reason} onChange={(event) => setReason(event.target.value)} />
      </div>
    </Frame>
  );
}

function SkipDialog({ at, close }: DialogProps) {
  const actions = useRunActions(at.run.id);
  const json = useJson(null);
  const failed = at.model.ending?.error?.path ?? "";
  const name = at.model.byPath.get(failed)?.name ?? "the failed step";
  return (
    <Frame
      title={`Skip ${name}`}
      lead={`The run continues as if ${name} had returned this output. It is not run; nothing before it runs again.`}
      close={close}
      problem={actions.problem}
      foot={
        <>
          <span className="grow" />
          <button type="button" className="btn" onClick={close}>
            Leave it
          </button>
          <button
            type="button"
            className="btn primary"
            disabled={actions.busy || json.problem !== ""}
            onClick={async () => {
              if (await actions.skip(failed, json.value)) close();
            }}
          >
            Skip {name}
          </button>
        </>
      }
    >
      <JsonField label="Output" json={json} rows={5} />
    </Frame>
  );
}

function CompensateDialog({ at, close }: DialogProps) {
  const actions = useRunActions(at.run.id);
  return (
    <Frame
      title="Compensate this run?"
      lead="Undoes the completed steps that say how to undo them, the last one first. The run stays failed."
      close={close}
      problem={actions.problem}
      foot={
        <>
          <span className="grow" />
          <button type="button" className="btn" onClick={close}>
            Leave it
          </button>
          <button
            type="button"
            className="btn primary"
            disabled={actions.busy}
            onClick={async () => {
              if (await actions.compensate()) close();
            }}
          >
            Compensate
          </button>
        </>
      }
    />
  );
}

function DeleteDialog({ at, close }: DialogProps) {
  const actions = useRunActions(at.run.id);
  const navigate = useNavigate();
  return (
    <Frame
      title="Delete this run?"
      lead="Its log, documents and the runs below it are gone for good."
      close={close}
      problem={actions.problem}
      foot={
        <>
          <span className="grow" />
          <button type="button" className="btn" onClick={close}>
            Keep it
          </button>
          <button
            type="button"
            className="btn danger"
            disabled={actions.busy}
            onClick={async () => {
              if ((await actions.remove()) !== null) {
                close();
                void navigate({ to: "/runs" });
              }
            }}
          >
            Delete the run
          </button>
        </>
      }
    />
  );
}
