import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import {
  ArrowLeft,
  Ban,
  Download,
  Ellipsis,
  GitFork,
  Hand,
  History,
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
import { overviewQuery } from "../../api/queries";
import { CopyButton } from "../../components/CopyButton";
import { StatusPill } from "../../components/StatusBadge";
import { Ago, useZoneName } from "../../components/Time";
import { answer, openRows, type Part, sentence } from "../../domain/answer";
import { usageWords } from "../../domain/eventKinds";
import { fromHistory, usedAt } from "../../domain/run";
import { isEnded, statusWord } from "../../domain/status";
import { absolute, duration } from "../../domain/time";
import { asProblem } from "../../domain/where";
import { version } from "../runs/RunRow";
import { type ActionName, RunDialog } from "./RunDialogs";
import { type RunAt, statusOf } from "./RunPage";
import { useRunActions } from "./useRunActions";

const STARTED: Record<string, string> = { api: "by API", manual: "by hand" };

/** Status, name, the answer in one sentence, and what can be done. */
export function RunHeader({ at, why }: { at: RunAt; why: string }) {
  const { run, model, seq } = at;
  const status = statusOf(at);
  const [dialog, setDialog] = useState<ActionName | "">("");
  const held = heldAt(at);
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
        {at.live ? (
          <StatusPill status={status} word={word} />
        ) : (
          <span className="pill past">
            <History className="i s" aria-hidden="true" />
            Past
          </span>
        )}
        <h1 className="mono">{run.workflow}</h1>
        <span className="tag">{version(run.version)}</span>
        {run.test && <span className="tag test">TEST</span>}
        <span className="rid mono xs t3" title={run.id}>
          {run.id.slice(0, 8)}…{run.id.slice(-4)}
        </span>
        <CopyButton text={run.id} label="Copy run id (Y)" />
        <span className="grow" />
        <Actions at={at} open={setDialog} />
      </div>
      <p className="answer" aria-live="polite">
        {!at.live && `At seq ${at.seq}: `}
        {parts.map(drawn)}
      </p>
      {at.live ? <Meta at={at} /> : <PastMeta at={at} />}
      {at.live && held && (
        <div className="banner st-suspended" role="status">
          <Hand className="i" aria-hidden="true" />
          <span className="grow">
            {why ? sentence(why) : "The run is held: it starts nothing new until it is released."}
          </span>
        </div>
      )}
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

/** When the cursor is in the past: when that was, and how to come back. */
function PastMeta({ at }: { at: RunAt }) {
  const zone = useZoneName();
  const checkpoints = at.model.checkpoints.filter((seq) => seq <= at.seq).length;
  const end = at.model.ending?.at ?? at.model.lastAt;
  return (
    <p className="meta xs t3">
      <span>
        <b>{absolute(at.now, zone)}</b>
      </span>
      <span>
        <b>{duration(Math.max(end - at.now, 0))}</b> before {at.model.ending ? "the end" : "now"}
      </span>
      {checkpoints > 0 && (
        <span>
          checkpoint <b>{checkpoints}</b>
        </span>
      )}
      <span className="hide-s">
        press <b>L</b> to return to the live run
      </span>
    </p>
  );
}

function Meta({ at }: { at: RunAt }) {
  const { run, model, seq } = at;
  const ended = isEnded(run.status);
  const overview = useQuery({
    ...overviewQuery(run.id, model.last),
    refetchInterval: ended ? false : 5_000,
  });
  const history = model.rows.filter((row) => fromHistory(model, row, seq)).length;
  const failed = run.status === "failed" || run.status === "timed_out";
  const at_ = asProblem(run.error)?.path;
  const step = at_ ? model.byPath.get(at_)?.name : undefined;
  const children = model.rows.filter((row) => row.child).length;
  const worker = ended ? "" : (model.claims.findLast((claim) => claim.worker)?.worker ?? "");
  const retries = model.retries.length;
  const active = overview.data ? overview.data.active * 1000 : null;
  const elapsed = overview.data ? overview.data.elapsed * 1000 : null;
  const waited = active !== null && elapsed !== null && elapsed - active > Math.max(2_000, elapsed * 0.05);
  const used = usageWords(usedAt(model.rows, seq));
  return (
    <p className="meta xs t3">
      <span>
        started{" "}
        <b>
          <Ago at={Date.parse(run.created_at)} />
        </b>
      </span>
      {elapsed !== null && run.status !== "pending" && (ended || waited) && (
        <span>
          {waited ? (
            <>
              <b>{duration(active ?? 0)}</b> active, <b>{duration(elapsed - (active ?? 0))}</b> waiting
            </>
          ) : (
            <>
              took <b>{duration(elapsed)}</b>
            </>
          )}
        </span>
      )}
      {run.key && (
        <span>
          key <b className="mono">{run.key}</b>
        </span>
      )}
      <span>
        {STARTED[run.trigger] ?? run.trigger}
        {run.started_by && (
          <>
            , <b>{run.started_by}</b>
          </>
        )}
      </span>
      {run.parent && (
        <span>
          child of{" "}
          <Link className="link mono" to="/runs/$id" params={{ id: run.parent }}>
            {run.parent.slice(-8)}
          </Link>
        </span>
      )}
      {children > 0 && (
        <Link className="link" to="/runs" search={{ parent: run.id } as never}>
          {children} {children === 1 ? "child" : "children"}
        </Link>
      )}
      {retries > 0 && (
        <span>
          retried <b>{retries === 1 ? "once" : `${retries} times`}</b>
        </span>
      )}
      {worker && (
        <span className="hide-s">
          worker <b className="mono">{worker.slice(0, 8)}</b>
        </span>
      )}
      {used && (
        <span>
          <b>{used}</b>
        </span>
      )}
      {history > 0 && (
        <span className="hide-s">
          <b>{history}</b> {history === 1 ? "step" : "steps"} came from history, none ran twice
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
