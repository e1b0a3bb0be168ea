import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { X } from "lucide-react";
import { useId, useState } from "react";
import { ApiProblem, api, ask, root } from "../../api/client";
import { workflowQuery } from "../../api/queries";
import { CopyButton } from "../../components/CopyButton";
import { Dialog } from "../../components/Dialog";
import { SchemaForm } from "../../components/SchemaForm";
import { formShape } from "../../domain/schema";
import { asCommand, asCurl, asPython, type Start } from "../../domain/startCommands";
import { ago, instant } from "../../domain/time";
import { lastRunsQuery } from "./lastRuns";

type Shown = { value: unknown; version: number }; // a new version draws the form anew

/** Start a run: the form of the workflow, else one from its input's schema, or JSON, with earlier inputs, and the same as a command. */
export function StartDialog({ name, close }: { name: string; close: () => void }) {
  const workflow = useQuery(workflowQuery(name));
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [chosen, setRaw] = useState<boolean | null>(null);
  const [shown, setShown] = useState<Shown>({ value: undefined, version: 0 });
  const [typed, setTyped] = useState<unknown>(undefined);
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<{ field: string; message: string } | null>(null);
  const id = useId();
  const show = (value: unknown) => {
    setShown((before) => ({ value, version: before.version + 1 }));
    setTyped(value);
  };
  const form = workflow.data?.form;
  // A graph without a schema takes any JSON: an empty form would start it with nothing.
  const bare = workflow.data?.kind === "graph" && !formShape(form ?? workflow.data.input_schema);
  const raw = chosen ?? bare;
  const start = async (input: unknown) => {
    setBusy(true);
    setProblem(null);
    try {
      const given = { ...(input === undefined ? {} : { input }), ...(key ? { key } : {}) };
      const body = { workflow: name, trigger: "manual", ...given };
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
  const rest = (
    <>
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
      <div className="row apbtns wrap">
        <button type="submit" className="btn primary" disabled={busy}>
          Start run
        </button>
        <button type="button" className="btn" onClick={close}>
          Close
        </button>
        <span className="grow" />
        <CopyAs
          start={{
            workflow: name,
            input: typed,
            key,
            server: `${window.location.origin}${root}`,
            manual: form != null,
          }}
        />
      </div>
    </>
  );
  return (
    <Dialog label={`Start ${name}`} className="rdlg" close={close}>
      <div className="shead">
        <h2>
          Start <code>{name}</code>
        </h2>
        {!bare && (
          <div className="seg" role="group" aria-label="Input as">
            <button type="button" aria-pressed={!raw} onClick={() => setRaw(false)}>
              Form
            </button>
            <button
              type="button"
              aria-pressed={raw}
              onClick={() => {
                show(typed);
                setRaw(true);
              }}
            >
              JSON
            </button>
          </div>
        )}
        <span className="grow" />
        {!writesInput(workflow.data?.definition) && <EarlierInputs name={name} choose={show} />}
        <button type="button" className="iconbtn" aria-label="Close" onClick={close}>
          <X className="i" aria-hidden="true" />
        </button>
      </div>
      <div className="rbody">
        {workflow.data &&
          (raw ? (
            <SchemaForm
              key={`raw ${shown.version}`}
              schema={{ title: "Input" }}
              value={shown.value ?? (bare ? {} : undefined)}
              problem={problem}
              changed={setTyped}
              submit={(value) => void start(value)}
            >
              {rest}
            </SchemaForm>
          ) : (
            <SchemaForm
              key={`form ${shown.version}`}
              schema={form ?? workflow.data.input_schema}
              value={typed}
              problem={problem}
              changed={setTyped}
              submit={(value) => void start(value)}
            >
              {rest}
            </SchemaForm>
          ))}
        {workflow.error && (
          <p className="errline" role="alert">
            {workflow.error.message}
          </p>
        )}
      </div>
    </Dialog>
  );
}

/** Whether its manual trigger makes the input of what is filled in: earlier inputs do not fit its form then. */
function writesInput(definition: unknown): boolean {
  const triggers = (definition as { triggers?: { type: string; input?: object }[] } | null)?.triggers ?? [];
  const manual = triggers.find((each) => each.type === "manual");
  return Object.keys(manual?.input ?? {}).length > 0;
}

/** Inputs of the last runs, to start from. */
function EarlierInputs({ name, choose }: { name: string; choose: (input: unknown) => void }) {
  const runs = useQuery(lastRunsQuery(name)).data?.runs ?? [];
  const id = useId();
  if (!runs.length) return null;
  const take = async (run: string) => {
    if (!run) return;
    const full = await ask(api.GET("/api/v1/runs/{run_id}", { params: { path: { run_id: run } } }));
    choose(full.input);
  };
  return (
    <>
      <label className="sr" htmlFor={id}>
        Input of an earlier run
      </label>
      <select id={id} className="input earlier" value="" onChange={(event) => void take(event.target.value)}>
        <option value="">Earlier input…</option>
        {runs.slice(0, 10).map((run) => (
          <option key={run.id} value={run.id}>
            {run.key || run.id.slice(-8)}, {ago(instant(run.created_at) ?? 0, Date.now(), undefined)}
          </option>
        ))}
      </select>
    </>
  );
}

function CopyAs({ start }: { start: Start }) {
  return (
    <span className="row g1 xs t3" role="group" aria-label="Copy as">
      Copy as
      <CopyButton small text={asCurl(start)} label="curl" />
      <CopyButton small text={asCommand(start)} label="CLI" />
      <CopyButton small text={asPython(start)} label="Python" />
    </span>
  );
}
