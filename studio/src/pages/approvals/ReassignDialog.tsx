import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useId, useState } from "react";
import { api, ask } from "../../api/client";
import { Dialog } from "../../components/Dialog";
import { type Approval, titleOf } from "./approvals";

/** Let others decide an approval. */
export function ReassignDialog(props: { approval: Approval; assignees: string[]; close: () => void }) {
  const { approval, close } = props;
  const queries = useQueryClient();
  const [names, setNames] = useState(props.assignees.join(", "));
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState("");
  const id = useId();
  const reassign = async (event: FormEvent) => {
    event.preventDefault();
    const assignees = names
      .split(",")
      .map((name) => name.trim())
      .filter(Boolean);
    try {
      await ask(
        api.POST("/api/v1/runs/{run_id}/reassign", {
          params: { path: { run_id: approval.run } },
          body: { assignees, path: approval.path, reason } as never,
        }),
      );
      void queries.invalidateQueries({ queryKey: ["approvals"] });
      close();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <Dialog label={`Reassign ${titleOf(approval)}`} className="rdlg small" close={close}>
      <div className="shead">
        <h2>Reassign</h2>
      </div>
      <form className="rbody apform" onSubmit={reassign}>
        <p className="t2">
          Only these people may decide. Votes already given are kept. Leave empty to let anyone decide.
        </p>
        <div className="field">
          <label htmlFor={`${id}-names`}>
            Assignees <span className="t3">names or role:NAME, separated by commas</span>
          </label>
          <input
            id={`${id}-names`}
            className="input"
            autoComplete="off"
            value={names}
            onChange={(event) => setNames(event.target.value)}
          />
        </div>
        <div className="field">
          <label htmlFor={`${id}-reason`}>
            Reason <span className="t3">optional, recorded in the log</span>
          </label>
          <input
            id={`${id}-reason`}
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
          <button type="submit" className="btn primary">
            Reassign
          </button>
          <button type="button" className="btn" onClick={close}>
            Close
          </button>
        </div>
      </form>
    </Dialog>
  );
}
