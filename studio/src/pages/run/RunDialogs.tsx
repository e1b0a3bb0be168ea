import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { CircleCheck, GitFork, Play } from "lucide-react";
import { useId, useState } from "react";
import { stateQuery, workflowQuery } from "../../api/queries";
import { CopyButton } from "../../components/CopyButton";
import { FormDialog } from "../../components/FormDialog";
import { JsonField, useJson } from "../../components/JsonField";
import { differences } from "../../domain/differences";
import { placeName } from "../../domain/path";
import { repeated } from "../../domain/rerun";
import type { Row } from "../../domain/run";
import { brief } from "../../domain/where";
import { version } from "../runs/RunRow";
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
      return (
        <ReasonDialog
          {...shared}
          title="Cancel this run?"
          lead="Steps that run now finish or are interrupted and clean up; nothing after them starts."
          keep="Keep it"
          word="Cancel the run"
          danger
          act={(actions, reason) => actions.cancel(reason)}
        />
      );
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
          lead="It starts nothing new until someone releases it. Steps that run now finish."
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
          lead="It ends at once, without its cleanup. Cancel ends it with its cleanup."
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
  const workflow = useQuery(workflowQuery(at.run.workflow));
  const json = useJson(at.run.input);
  const opened = useOpened(close);
  const [chosen, setChosen] = useState(at.run.version);
  const id = useId();
  const versions = [...new Set([at.run.version, ...(workflow.data?.versions ?? [])])];
  return (
    <FormDialog
      title={`Rerun ${at.run.workflow}`}
      lead={
        <>
          A <b>new run</b> from the beginning. Every step runs again, with its effects.{" "}
          <b>{at.run.key || "This run"} stays as it is.</b>
        </>
      }
      close={close}
      keep="Keep as it is"
      word="Rerun"
      icon={<Play className="i" aria-hidden="true" />}
      busy={actions.busy}
      ready={!json.problem}
      problem={actions.problem}
      act={async () => opened(await actions.rerun(json.value, chosen === at.run.version ? "" : chosen))}
      aside={<CopyButton text={`stepwell runs rerun ${at.run.id}`} label="Copy as command" small />}
    >
      <JsonField label="Input" note="as recorded; edit it if needed" json={json} />
      {versions.length > 1 && (
        <div className="field">
          <label htmlFor={id}>Version</label>
          <select
            id={id}
            className="input"
            value={chosen}
            onChange={(event) => setChosen(event.target.value)}
          >
            {versions.map((each) => (
              <option key={each} value={each}>
                {version(each)}
                {each === at.run.version ? ", as before" : ""}
              </option>
            ))}
          </select>
        </div>
      )}
    </FormDialog>
  );
}

function RerunFromDialog({ at, close, step }: DialogProps & { step: Row }) {
  const actions = useRunActions(at.run.id);
  const opened = useOpened(close);
  const carried = at.events[0]?.data.graph;
  const workflow = useQuery({
    ...workflowQuery(at.run.workflow, at.run.version),
    enabled: at.run.kind === "graph" && !carried,
  });
  const plan = repeated(
    at.model,
    step,
    at.run.kind === "graph" ? (carried ?? workflow.data?.definition) : null,
  );
  return (
    <FormDialog
      title={`Rerun from ${step.name}`}
      lead={
        <>
          A <b>new run</b> that takes the recorded results before <code>{step.name}</code> and runs the rest.{" "}
          <b>{at.run.key || "This run"} stays as it is.</b>
        </>
      }
      close={close}
      keep="Keep as it is"
      word={`Rerun from ${step.name}`}
      icon={<Play className="i" aria-hidden="true" />}
      busy={actions.busy}
      problem={actions.problem}
      act={async () => opened(await actions.rerunFrom(step.path))}
      aside={
        <CopyButton
          text={`stepwell runs rerun ${at.run.id} --from ${step.path}`}
          label="Copy as command"
          small
        />
      }
    >
      <div className="rcols">
        <Names
          title="From history"
          names={plan.kept}
          icon={<CircleCheck className="i s ok" aria-hidden="true" />}
        />
        <Names
          title="Will run"
          names={plan.again}
          icon={<Play className="i s" aria-hidden="true" />}
          more={plan.more}
        />
      </div>
    </FormDialog>
  );
}

function Names(props: { title: string; names: string[]; icon: React.ReactNode; more?: string }) {
  const { names } = props;
  return (
    <div>
      <h3 className="h3">
        {props.title}, {names.length}
      </h3>
      <ul className="rl" aria-label={props.title}>
        {names.slice(0, 8).map((name) => (
          <li key={name}>
            {props.icon}
            <code>{name}</code>
          </li>
        ))}
        {names.length > 8 && <li className="t3">and {names.length - 8} more</li>}
        {!names.length && <li className="t3">nothing</li>}
        {props.more && <li className="t2">{props.more}</li>}
      </ul>
    </div>
  );
}

function ForkDialog({ at, close }: DialogProps) {
  const point = at.model.checkpoints.findLast((seq) => seq <= at.seq) ?? 0;
  const state = useQuery(stateQuery(at.run.id, point));
  if (!point) {
    return (
      <FormDialog
        title="Fork"
        lead="There is no checkpoint up to here: a step or transition must complete first."
        close={close}
        keep="Close"
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
  const changes = json.problem ? [] : differences(props.start ?? {}, json.value ?? {});
  const edits = () => {
    if (!changes.length) return {};
    if (props.machine) return { state: json.value };
    const before = (props.start ?? {}) as Record<string, unknown>;
    const after = (json.value ?? {}) as Record<string, unknown>;
    const changed = Object.entries(after).filter(
      ([name, value]) => JSON.stringify(before[name]) !== JSON.stringify(value),
    );
    return changed.length ? { outputs: Object.fromEntries(changed) } : {};
  };
  const kept = props.at.model.rows.filter((row) => row.result !== null && row.result <= props.point).length;
  return (
    <FormDialog
      title={`Fork at seq ${props.point}`}
      lead={
        <>
          A <b>new run</b> that begins as this one was at seq {props.point}: {kept} results are taken from
          history, everything after them runs. <b>{props.at.run.key || "This run"} stays as it is.</b>
        </>
      }
      close={props.close}
      keep="Keep as it is"
      word="Fork"
      icon={<GitFork className="i" aria-hidden="true" />}
      busy={actions.busy}
      ready={!json.problem}
      problem={actions.problem}
      act={async () => opened(await actions.fork(props.point, edits()))}
    >
      <JsonField
        label={props.machine ? "State" : "Results of the steps so far"}
        note="edit as needed"
        json={json}
        rows={11}
      />
      {changes.length > 0 && (
        <ul className="changes" aria-label="Your changes">
          {changes.slice(0, 20).map((change) => (
            <li key={change.path} className={`ch-${change.kind}`}>
              <code>{props.machine ? change.path : placeName(change.path)}</code>
              {change.kind !== "added" && <del>{brief(change.old, 160)}</del>}
              {change.kind !== "removed" && <ins>{brief(change.value, 160)}</ins>}
            </li>
          ))}
        </ul>
      )}
    </FormDialog>
  );
}

function SignalDialog({ at, close }: DialogProps) {
  const actions = useRunActions(at.run.id);
  const waits = at.model.rows.filter((row) => row.open && row.what === "signal").map((row) => row.name);
  const [name, setName] = useState(waits[0] ?? "");
  const json = useJson(null);
  const id = useId();
  return (
    <FormDialog
      title="Signal"
      lead={
        waits.length
          ? `The run waits for ${waits.join(", ")}.`
          : "The run takes it when it waits for a signal of that name."
      }
      close={close}
      keep="Close"
      word="Send signal"
      busy={actions.busy}
      ready={name !== "" && !json.problem}
      problem={actions.problem}
      act={async () => {
        if (await actions.signal(name, json.value)) close();
      }}
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
    </FormDialog>
  );
}

/** A verb that only asks for a reason. */
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
    <FormDialog
      title={props.title}
      lead={props.lead}
      close={props.close}
      keep={props.keep}
      word={props.word}
      danger={props.danger === true}
      busy={actions.busy}
      problem={actions.problem}
      act={async () => {
        if (await props.act(actions, reason)) props.close();
      }}
    >
      <div className="field">
        <label htmlFor={id}>
          Reason <span className="t3">kept in the log</span>
        </label>
        <input id={id} className="input" value={reason} onChange={(event) => setReason(event.target.value)} />
      </div>
    </FormDialog>
  );
}

function SkipDialog({ at, close }: DialogProps) {
  const actions = useRunActions(at.run.id);
  const json = useJson(null);
  const failed = at.model.ending?.error?.path ?? "";
  const name = at.model.byPath.get(failed)?.name ?? "the failed step";
  return (
    <FormDialog
      title={`Skip ${name}`}
      lead={`The run continues as if ${name} had returned this output. It is not run; nothing before it runs again.`}
      close={close}
      keep="Keep it failed"
      word={`Skip ${name}`}
      busy={actions.busy}
      ready={!json.problem}
      problem={actions.problem}
      act={async () => {
        if (await actions.skip(failed, json.value)) close();
      }}
    >
      <JsonField label="Output" json={json} rows={5} />
    </FormDialog>
  );
}

function CompensateDialog({ at, close }: DialogProps) {
  const actions = useRunActions(at.run.id);
  const done = at.model.rows
    .filter((row) => row.kind === "step" && row.result !== null)
    .map((row) => row.name);
  return (
    <FormDialog
      title="Compensate this run?"
      lead={`Runs the compensations of the completed steps, the last one first. Completed steps: ${done.length}. The run stays failed.`}
      close={close}
      keep="Not now"
      word="Compensate"
      busy={actions.busy}
      problem={actions.problem}
      act={async () => {
        if (await actions.compensate()) close();
      }}
    />
  );
}

function DeleteDialog({ at, close }: DialogProps) {
  const actions = useRunActions(at.run.id);
  const navigate = useNavigate();
  return (
    <FormDialog
      title="Delete this run?"
      lead="Its log, its documents and its child runs are deleted. This cannot be undone."
      close={close}
      keep="Keep it"
      word="Delete the run"
      danger
      busy={actions.busy}
      problem={actions.problem}
      act={async () => {
        if ((await actions.remove()) === null) return;
        close();
        void navigate({ to: "/runs" });
      }}
    />
  );
}
