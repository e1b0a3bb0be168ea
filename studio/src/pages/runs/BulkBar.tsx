import { Ban, RotateCw, Trash2, X } from "lucide-react";
import { useEffect, useState } from "react";
import { ApiProblem, api, ask, type Run, type Schemas } from "../../api/client";
import { Dialog } from "../../components/Dialog";
import { isEnded } from "../../domain/status";

type Job = Schemas["BulkJobView"];
type Verb = "retry" | "cancel" | "delete";

const CONSEQUENCE: Record<Verb, (count: number) => string> = {
  retry: (count) =>
    `${count} failed ${runs(count)} continue where they stopped. What is done is not done again.`,
  cancel: (count) =>
    `${count} ${runs(count)} clean up and end. Steps that run now finish; nothing after them starts.`,
  delete: (count) => `${count} ended ${runs(count)}, their logs and documents are gone for good.`,
};
const WORD: Record<Verb, string> = { retry: "Retry", cancel: "Cancel", delete: "Delete" };

/** What can be done with the selected runs. Each verb carries its own count and says its consequence. */
export function BulkBar(props: { selected: Run[]; clear: () => void }) {
  const [asked, setAsked] = useState<Verb | "">("");
  const [job, setJob] = useState<Job | null>(null);
  const [problem, setProblem] = useState("");
  const fits: Record<Verb, Run[]> = {
    retry: props.selected.filter((run) => run.status === "failed" || run.status === "timed_out"),
    cancel: props.selected.filter((run) => !isEnded(run.status)),
    delete: props.selected.filter((run) => isEnded(run.status)),
  };
  const id = job?.id;
  const over = job ? isEnded(job.status as never) : true;
  useEffect(() => {
    if (!id || over) return;
    const timer = window.setInterval(() => {
      ask(api.GET("/api/v1/bulk/{job_id}", { params: { path: { job_id: id } } }))
        .then(setJob)
        .catch(() => {});
    }, 500);
    return () => window.clearInterval(timer);
  }, [id, over]);
  const act = async (verb: Verb) => {
    setAsked("");
    const body = { runs: fits[verb].map((run) => run.id) } as never;
    try {
      const call =
        verb === "retry"
          ? api.POST("/api/v1/bulk/retry", { body })
          : verb === "cancel"
            ? api.POST("/api/v1/bulk/cancel", { body })
            : api.POST("/api/v1/bulk/delete", { body });
      setJob(await ask(call as never));
    } catch (error) {
      setProblem(error instanceof ApiProblem ? error.message : String(error));
    }
  };
  if (!props.selected.length && !job) return null;
  return (
    <div className="bulk" role="toolbar" aria-label="Bulk actions">
      {job ? (
        <span role="status">
          {WORD[job.action as Verb] ?? job.action}: {job.done} done
          {job.unchanged ? `, ${job.unchanged} unchanged` : ""}
          {job.failed ? `, ${job.failed} refused` : ""}
          {over ? "" : "…"}
        </span>
      ) : (
        <b>{props.selected.length} selected</b>
      )}
      {problem && <span>{problem}</span>}
      <span className="vr" />
      {!job &&
        (["retry", "cancel", "delete"] as const).map((verb) => (
          <button
            type="button"
            className="onink"
            key={verb}
            disabled={!fits[verb].length}
            onClick={() => setAsked(verb)}
          >
            {verb === "retry" ? (
              <RotateCw className="i s" aria-hidden="true" />
            ) : verb === "cancel" ? (
              <Ban className="i s" aria-hidden="true" />
            ) : (
              <Trash2 className="i s" aria-hidden="true" />
            )}
            {WORD[verb]} {fits[verb].length}
          </button>
        ))}
      <button
        type="button"
        className="onink ic"
        aria-label="Clear the selection"
        onClick={() => {
          setJob(null);
          setProblem("");
          props.clear();
        }}
      >
        <X className="i s" aria-hidden="true" />
      </button>
      {asked && (
        <Dialog label={`${WORD[asked]} runs`} className="rdlg" close={() => setAsked("")}>
          <div className="shead">
            <h2>
              {WORD[asked]} {fits[asked].length} {runs(fits[asked].length)}?
            </h2>
          </div>
          <div className="rbody">
            <p className="t2">{CONSEQUENCE[asked](fits[asked].length)}</p>
          </div>
          <div className="rfoot">
            <span className="grow" />
            <button type="button" className="btn" onClick={() => setAsked("")}>
              Keep them
            </button>
            <button
              type="button"
              className={asked === "retry" ? "btn primary" : "btn danger"}
              onClick={() => void act(asked)}
            >
              {WORD[asked]} {fits[asked].length} {runs(fits[asked].length)}
            </button>
          </div>
        </Dialog>
      )}
    </div>
  );
}

function runs(count: number): string {
  return count === 1 ? "run" : "runs";
}
