import { Link, useNavigate } from "@tanstack/react-router";
import {
  ArrowLeft,
  Ban,
  Download,
  Ellipsis,
  GitFork,
  Hand,
  OctagonX,
  Play,
  Radio,
  RotateCw,
  SkipForward,
  Trash2,
  Undo2,
} from "lucide-react";
import { DropdownMenu } from "radix-ui";
import { useState } from "react";
import { root } from "../../api/client";
import { CopyButton } from "../../components/CopyButton";
import { StatusPill } from "../../components/StatusBadge";
import { Ago } from "../../components/Time";
import { answer, openRows, type Part } from "../../domain/answer";
import { fromHistory } from "../../domain/run";
import { isEnded, statusWord } from "../../domain/status";
import { duration, instant } from "../../domain/time";
import { asProblem } from "../../domain/where";
import { version } from "../runs/RunRow";
import { type ActionName, RunDialog } from "./RunDialogs";
import { type RunAt, statusOf } from "./RunPage";
import { useRunActions } from "./useRunActions";

/** Status, name, the answer in one sentence, and what can be done. */
export function RunHeader({ at, why }: { at: RunAt; why: string }) {
  const { run, model, seq } = at;
  const status = statusOf(at);
  const [dialog, setDialog] = useState<ActionName | "">("");
  const waits = openRows(model, seq);
  const word =
    status === "suspended" && waits[0]
      ? `Waiting for ${noun(waits[0].kind, waits[0].what)}`
      : statusWord(status);
  const parts = answer(model, {
    status,
    seq,
    now: at.now,
    why: at.live ? why : "",
    output: run.output,
    error: at.live ? asProblem(run.error) : null,
  });
  return (
    <div className="runhead">
      <div className="rh1">
        <Link className="back" to="/runs" aria-label="Back to Runs">
          <ArrowLeft className="i s" aria-hidden="true" />
          <span>Runs</span>
        </Link>
        <StatusPill status={status} word={word} />
        <h1 className="mono">{run.workflow}</h1>
        <span className="tag">{version(run.version)}</span>
        {run.test && <span className="tag test">TEST</span>}
        <span className="rid mono xs t3">{run.id}</span>
        <CopyButton text={run.id} label="Copy run id (Y)" />
        <span className="grow" />
        <Actions at={at} open={setDialog} />
      </div>
      <p className="answer" aria-live="polite">
        {parts.map(drawn)}
      </p>
      <Meta at={at} />
      {dialog && <RunDialog at={at} action={dialog} close={() => setDialog("")} />}
    </div>
  );
}

function drawn(part: Part, index: number) {
  if (typeof part === "string") return part;
  return "code" in part ? <code key={index}>{part.code}</code> : <b key={index}>{part.strong}</b>;
}

function noun(kind: string, what: string): string {
  return kind === "timer" ? "a timer" : what === "trigger" ? "a person" : what;
}

function Meta({ at }: { at: RunAt }) {
  const { run, model, seq } = at;
  const end = instant(run.ended_at);
  const start = Date.parse(run.created_at);
  const history = model.rows.filter((row) => fromHistory(model, row, seq)).length;
  const failed = run.status === "failed" || run.status === "timed_out";
  const at_ = asProblem(run.error)?.path;
  const step = at_ ? model.byPath.get(at_)?.name : undefined;
  const by = at.events[0]?.data.by;
  return (
    <p className="meta xs t3">
      <span>
        started{" "}
        <b>
          <Ago at={start} />
        </b>
      </span>
      {end !== null && isEnded(run.status) && (
        <span>
          took <b>{duration(end - start)}</b>
        </span>
      )}
      {run.key && (
        <span>
          key <b className="mono">{run.key}</b>
        </span>
      )}
      {typeof by === "string" && by && (
        <span>
          by <b>{by}</b>
        </span>
      )}
      {run.parent && (
        <span>
          child of{" "}
          <Link className="link mono" to="/runs/$id" params={{ id: run.parent }}>
            {run.parent.slice(-8)}
          </Link>
        </span>
      )}
      {history > 0 && (
        <span className="hide-s">
          <b>{history}</b> steps came from history, none ran twice
        </span>
      )}
      {failed && at.live && (
        <span className="hide-s">
          {step ? (
            <>
              Retry will run <b className="mono">{step}</b>, then continue; nothing before it runs again
            </>
          ) : (
            "Retry continues where it stopped; nothing before it runs again"
          )}
        </span>
      )}
    </p>
  );
}

/** Whether somebody holds the run, so that it begins nothing new. */
function heldAt(at: RunAt): boolean {
  const last = at.events.findLast((event) => event.kind === "held" || event.kind === "released");
  return last?.kind === "held" && !isEnded(at.run.status);
}

function Actions({ at, open }: { at: RunAt; open: (action: ActionName) => void }) {
  const { run } = at;
  const actions = useRunActions(run.id);
  const navigate = useNavigate();
  if (!at.live) {
    return (
      <div className="acts">
        <button type="button" className="btn violet" onClick={() => open("fork")}>
          <GitFork className="i" aria-hidden="true" />
          Fork from here…
        </button>
      </div>
    );
  }
  const failed = run.status === "failed" || run.status === "timed_out";
  const ended = isEnded(run.status);
  const held = heldAt(at);
  return (
    <div className="acts">
      {held && (
        <button
          type="button"
          className="btn primary"
          disabled={actions.busy}
          onClick={() => void actions.release()}
        >
          <Play className="i" aria-hidden="true" />
          Release
        </button>
      )}
      {failed && (
        <button
          type="button"
          className="btn primary"
          disabled={actions.busy}
          onClick={() => void actions.retry()}
        >
          <RotateCw className="i" aria-hidden="true" />
          Retry
        </button>
      )}
      <button type="button" className="btn" onClick={() => open("rerun")}>
        <Play className="i" aria-hidden="true" />
        Rerun…
      </button>
      <button type="button" className="btn hide-s" onClick={() => open("fork")}>
        <GitFork className="i" aria-hidden="true" />
        Fork…
      </button>
      {!ended && (
        <button type="button" className="btn" onClick={() => open("cancel")}>
          <Ban className="i" aria-hidden="true" />
          Cancel…
        </button>
      )}
      <DropdownMenu.Root modal={false}>
        <DropdownMenu.Trigger className="iconbtn" aria-label="More actions">
          <Ellipsis className="i" aria-hidden="true" />
        </DropdownMenu.Trigger>
        <DropdownMenu.Content className="menu" align="end" sideOffset={4}>
          {!ended && (
            <DropdownMenu.Item className="menuitem" onSelect={() => open("signal")}>
              <Radio className="i s" aria-hidden="true" />
              Signal…
            </DropdownMenu.Item>
          )}
          {!ended && !held && (
            <DropdownMenu.Item className="menuitem" onSelect={() => open("hold")}>
              <Hand className="i s" aria-hidden="true" />
              Hold…
            </DropdownMenu.Item>
          )}
          {failed && (
            <DropdownMenu.Item className="menuitem" onSelect={() => open("skip")}>
              <SkipForward className="i s" aria-hidden="true" />
              Skip the failed step…
            </DropdownMenu.Item>
          )}
          {failed && (
            <DropdownMenu.Item className="menuitem" onSelect={() => open("compensate")}>
              <Undo2 className="i s" aria-hidden="true" />
              Compensate…
            </DropdownMenu.Item>
          )}
          <DropdownMenu.Item
            className="menuitem"
            onSelect={() => window.location.assign(`${root}/api/v1/runs/${run.id}/export`)}
          >
            <Download className="i s" aria-hidden="true" />
            Export
          </DropdownMenu.Item>
          {!ended && (
            <DropdownMenu.Item className="menuitem bad" onSelect={() => open("force")}>
              <OctagonX className="i s" aria-hidden="true" />
              End by force…
            </DropdownMenu.Item>
          )}
          {ended && (
            <DropdownMenu.Item className="menuitem bad" onSelect={() => open("delete")}>
              <Trash2 className="i s" aria-hidden="true" />
              Delete…
            </DropdownMenu.Item>
          )}
          {run.root !== run.id && (
            <DropdownMenu.Item
              className="menuitem"
              onSelect={() => void navigate({ to: "/runs/$id", params: { id: run.root } })}
            >
              <ArrowLeft className="i s" aria-hidden="true" />
              Open the root run
            </DropdownMenu.Item>
          )}
        </DropdownMenu.Content>
      </DropdownMenu.Root>
      {actions.problem && (
        <span className="errline" role="alert">
          {actions.problem}
        </span>
      )}
    </div>
  );
}
