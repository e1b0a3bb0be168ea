import { type FormEvent, useId, useState } from "react";
import { api, ask } from "../../api/client";
import { Dialog } from "../../components/Dialog";

/** Disable a workflow, or enable it again; says what that means for its runs. */
export function SwitchDialog(props: { name: string; enabled: boolean; close: () => void; done: () => void }) {
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState("");
  const id = useId();
  const verb = props.enabled ? "Disable" : "Enable";
  const change = async (event: FormEvent) => {
    event.preventDefault();
    const options = { params: { path: { name: props.name } }, body: { reason } as never };
    try {
      if (props.enabled) await ask(api.POST("/api/v1/workflows/{name}/disable", options));
      else await ask(api.POST("/api/v1/workflows/{name}/enable", options));
      props.done();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <Dialog label={`${verb} ${props.name}`} className="rdlg small" close={props.close}>
      <div className="shead">
        <h2>
          {verb} <code>{props.name}</code>?
        </h2>
      </div>
      <form className="rbody apform" onSubmit={change}>
        <p className="t2">
          {props.enabled
            ? "New runs are refused, no matter how they are started. Existing runs continue."
            : "New runs are accepted again."}
        </p>
        <div className="field">
          <label htmlFor={id}>
            Reason <span className="t3">optional, shown when a start is refused</span>
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
          <button type="submit" className={props.enabled ? "btn danger" : "btn primary"}>
            {verb} workflow
          </button>
          <button type="button" className="btn" onClick={props.close}>
            Keep it
          </button>
        </div>
      </form>
    </Dialog>
  );
}
