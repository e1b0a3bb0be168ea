import { type FormEvent, useId, useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { CopyButton } from "../../components/CopyButton";
import { Dialog } from "../../components/Dialog";
import { Ago } from "../../components/Time";
import { type Approval, titleOf } from "./approvals";

/** A link with which one person decides this approval, without a key. */
export function LinkDialog(props: { approval: Approval; assignees: string[]; close: () => void }) {
  const { approval, close } = props;
  const [who, setWho] = useState(props.assignees.find((name) => !name.startsWith("role:")) ?? "");
  const [made, setMade] = useState<Schemas["LinkCreated"] | null>(null);
  const [problem, setProblem] = useState("");
  const id = useId();
  const roles = props.assignees.filter((name) => name.startsWith("role:")).map((name) => name.slice(5));
  const create = async (event: FormEvent) => {
    event.preventDefault();
    setProblem("");
    try {
      setMade(
        await ask(
          api.POST("/api/v1/runs/{run_id}/links", {
            params: { path: { run_id: approval.run } },
            body: { assignee: who.trim(), path: approval.path, roles } as never,
          }),
        ),
      );
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  const address = made ? new URL(made.url, window.location.origin).href : "";
  return (
    <Dialog label={`Link for ${titleOf(approval)}`} className="rdlg small" close={close}>
      <div className="shead">
        <h2>Approval link</h2>
      </div>
      {made ? (
        <div className="rbody apform">
          <p className="t2">
            Send it to <b>{made.assignee}</b> only. It works once, until{" "}
            <Ago at={Date.parse(made.expires_at)} />, and is shown only once.
          </p>
          <div className="keyline">
            <code className="breakall">{address}</code>
            <CopyButton text={address} label="Copy the link" />
          </div>
          <div className="row apbtns">
            <button type="button" className="btn primary" onClick={close}>
              Done
            </button>
          </div>
        </div>
      ) : (
        <form className="rbody apform" onSubmit={create}>
          <p className="t2">
            Anyone with the link can decide without signing in, under the name that you enter here.
          </p>
          <div className="field">
            <label htmlFor={id}>Recipient</label>
            <input
              id={id}
              className="input"
              autoComplete="off"
              value={who}
              onChange={(event) => setWho(event.target.value)}
            />
          </div>
          {problem && (
            <p className="errline" role="alert">
              {problem}
            </p>
          )}
          <div className="row apbtns">
            <button type="submit" className="btn primary">
              Create link
            </button>
            <button type="button" className="btn" onClick={close}>
              Close
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
