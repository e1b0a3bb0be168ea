import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useId, useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { Dialog } from "../../components/Dialog";

/** Ask a worker to stop; says what becomes of its runs. */
export function DrainDialog(props: { worker: Schemas["WorkerView"]; last: boolean; close: () => void }) {
  const { worker, close } = props;
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState("");
  const id = useId();
  const name = worker.name || worker.id;
  const drain = async (event: FormEvent) => {
    event.preventDefault();
    try {
      await ask(
        api.POST("/api/v1/workers/{worker_id}/drain", {
          params: { path: { worker_id: worker.id } },
          body: { reason } as never,
        }),
      );
      void queries.invalidateQueries({ queryKey: ["workers"] });
      close();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <Dialog label={`Drain ${name}`} className="rdlg small" close={close}>
      <div className="shead">
        <h2>
          Drain <code>{name}</code>?
        </h2>
      </div>
      <form className="rbody apform" onSubmit={drain}>
        <p className="t2">
          It takes no new work, finishes the steps that run now, and stops.{" "}
          {props.last
            ? "It is the only worker: its other runs wait until another one starts."
            : "Other workers take over the rest of its runs."}
        </p>
        <div className="field">
          <label htmlFor={id}>
            Reason <span className="t3">optional, shown to others</span>
          </label>
          <input
            id={id}
            className="input"
            autoComplete="off"
            value={reason}
            onChange={(event) => setReason(event.target.value)}
          />
        </div>
        {problem && (
          <p className="errline" role="alert">
            {problem}
          </p>
        )}
        <div className="row apbtns">
          <button type="submit" className="btn danger">
            Drain worker
          </button>
          <button type="button" className="btn" onClick={close}>
            Keep it
          </button>
        </div>
      </form>
    </Dialog>
  );
}
