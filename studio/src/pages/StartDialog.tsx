import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { X } from "lucide-react";
import { useId, useState } from "react";
import { ApiProblem, api, ask } from "../api/client";
import { workflowQuery } from "../api/queries";
import { Dialog } from "../components/Dialog";
import { SchemaForm } from "../components/SchemaForm";

/** Start a run: a form from the input's schema. */
export function StartDialog({ name, close }: { name: string; close: () => void }) {
  const workflow = useQuery(workflowQuery(name));
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<{ field: string; message: string } | null>(null);
  const id = useId();
  const start = async (input: unknown) => {
    setBusy(true);
    setProblem(null);
    try {
      const body = { workflow: name, ...(input === undefined ? {} : { input }), ...(key ? { key } : {}) };
      const started = await ask(api.POST("/api/v1/runs", { body: body as never }));
      void queries.invalidateQueries({ queryKey: ["runs"] });
      close();
      void navigate({ to: "/runs/$id", params: { id: started.id } });
    } catch (error) {
      const told = error instanceof ApiProblem ? error : null;
      setProblem({ field: told?.field ?? "", message: told ? told.message : String(error) });
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog label={`Start ${name}`} className="rdlg" close={close}>
      <div className="shead">
        <h2>
          Start <code>{name}</code>
        </h2>
        <span className="grow" />
        <button type="button" className="iconbtn" aria-label="Close" onClick={close}>
          <X className="i" aria-hidden="true" />
        </button>
      </div>
      <div className="rbody">
        {workflow.data && (
          <SchemaForm
            schema={workflow.data.input_schema}
            problem={problem}
            submit={(value) => void start(value)}
          >
            <div className="field">
              <label htmlFor={id}>
                Key <span className="t3">optional; the same key gives the same run</span>
              </label>
              <input
                id={id}
                className="input mono"
                autoComplete="off"
                value={key}
                onChange={(event) => setKey(event.target.value)}
              />
            </div>
            <div className="row apbtns">
              <button type="submit" className="btn primary" disabled={busy}>
                Start run
              </button>
              <button type="button" className="btn" onClick={close}>
                Close
              </button>
            </div>
          </SchemaForm>
        )}
      </div>
    </Dialog>
  );
}
