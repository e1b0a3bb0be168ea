import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ArrowLeft, Play, SearchX } from "lucide-react";
import { type KeyboardEvent, useState } from "react";
import { ApiProblem, type WorkflowDetail } from "../../api/client";
import { countsQuery, workflowQuery, workflowsQuery } from "../../api/queries";
import { Command, EmptyState } from "../../components/EmptyState";
import { JsonView } from "../../components/JsonView";
import { Ago } from "../../components/Time";
import { usePageTitle } from "../../components/usePageTitle";
import { isEnded, type RunStatus, statusWord } from "../../domain/status";
import { duration } from "../../domain/time";
import { RunRow, version } from "../runs/RunRow";
import { DefinitionCanvas } from "./DefinitionCanvas";
import { KindIcon, lastRunsQuery, p95 } from "./lastRuns";
import { StartDialog } from "./StartDialog";
import { SwitchDialog } from "./SwitchDialog";
import { Versions } from "./Versions";

const VIEWS = ["overview", "versions", "runs", "code"] as const;
type View = (typeof VIEWS)[number];
const LABELS: Record<View, string> = {
  overview: "Overview",
  versions: "Versions",
  runs: "Runs",
  code: "Code",
};

/** A workflow: its drawing or signature, its versions and what differs between them, and its last runs. */
export function WorkflowPage() {
  const { name = "" } = useParams({ strict: false });
  const search = useSearch({ strict: false }) as Record<string, string | undefined>;
  const navigate = useNavigate();
  const queries = useQueryClient();
  const workflow = useQuery(workflowQuery(name));
  const summary = useQuery(workflowsQuery).data?.workflows.find((each) => each.name === name);
  const [switching, setSwitching] = useState(false);
  usePageTitle(name);
  const go = (change: Record<string, string | undefined>) =>
    void navigate({
      to: "/workflows/$name",
      params: { name },
      search: { ...search, ...change } as never,
      replace: true,
    });
  if (workflow.error instanceof ApiProblem && workflow.error.status === 404) {
    return (
      <main className="main" id="main">
        <EmptyState
          whole
          icon={<SearchX className="i l" aria-hidden="true" />}
          title={`No workflow ${name} here`}
          action={
            <>
              <Link className="btn" to="/workflows">
                All workflows
              </Link>
              <Command text="stepwell dev flows.py" />
            </>
          }
        >
          A workflow appears once a worker has it. It may have another name, or be in another workspace.
        </EmptyState>
      </main>
    );
  }
  if (workflow.error && !workflow.data) throw workflow.error;
  const data = workflow.data;
  if (!data) return <main className="main" id="main" aria-busy="true" />;
  const view = VIEWS.find((each) => each === search.view) ?? "overview";
  const enabled = summary?.enabled !== false;
  return (
    <main className="main" id="main">
      <div className="runhead">
        <div className="rh1">
          <Link className="back" to="/workflows" aria-label="Back to Workflows">
            <ArrowLeft className="i s" aria-hidden="true" />
            <span>Workflows</span>
          </Link>
          <KindIcon kind={data.kind} />
          <h1 className="mono">{name}</h1>
          <span className={enabled ? "tag st st-completed" : "tag st st-running"}>
            {enabled ? `${version(data.version)} live` : "disabled"}
          </span>
          <span className="grow" />
          <div className="acts">
            <button type="button" className="btn" onClick={() => setSwitching(true)}>
              {enabled ? "Disable…" : "Enable…"}
            </button>
            <button
              type="button"
              className="btn primary"
              disabled={!enabled}
              onClick={() => go({ start: "1" })}
            >
              <Play className="i" aria-hidden="true" />
              Run…
            </button>
          </div>
        </div>
        <Answer name={name} data={data} />
        <p className="meta xs t3">
          <span>{describe(data)}</span>
          {summary?.title && summary.title !== name && <span>{summary.title}</span>}
          {summary?.switched_by && (
            <span>
              {enabled ? "enabled" : "disabled"} by <b>{summary.switched_by}</b>
              {summary.reason && `: ${summary.reason}`}
            </span>
          )}
        </p>
      </div>
      <Tabs name={name} view={view} versions={data.versions.length} choose={(each) => go({ view: each })} />
      <div
        className="wftab"
        role="tabpanel"
        id={`wf-${view}`}
        aria-labelledby={`wf-tab-${view}`}
        // Panels without a button or link must be reachable, too: they scroll.
        tabIndex={view === "versions" ? undefined : 0}
      >
        {view === "overview" && <Overview name={name} data={data} description={summary?.description ?? ""} />}
        {view === "versions" && (
          <Versions
            name={name}
            latest={data}
            chosen={search.version ?? ""}
            against={search.against ?? ""}
            choose={(chosen, against) => go({ version: chosen, against })}
          />
        )}
        {view === "runs" && <LastRuns name={name} />}
        {view === "code" && (
          <div className="scroll wfbody">
            <JsonView value={data.definition} name={`${name} ${version(data.version)}`} />
          </div>
        )}
      </div>
      {search.start && enabled && <StartDialog name={name} close={() => go({ start: undefined })} />}
      {switching && (
        <SwitchDialog
          name={name}
          enabled={enabled}
          close={() => setSwitching(false)}
          done={() => {
            setSwitching(false);
            void queries.invalidateQueries({ queryKey: ["workflows"] });
          }}
        />
      )}
    </main>
  );
}

function Tabs(props: { name: string; view: View; versions: number; choose: (view: View) => void }) {
  const counts = useQuery(countsQuery).data?.workflows[props.name];
  const runs = Object.values(counts ?? {}).reduce((sum, count) => sum + count, 0);
  const numbers: Partial<Record<View, number>> = { versions: props.versions, runs };
  const pressed = (event: KeyboardEvent) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    const next = VIEWS[(VIEWS.indexOf(props.view) + by + VIEWS.length) % VIEWS.length];
    if (!next) return;
    props.choose(next);
    document.getElementById(`wf-tab-${next}`)?.focus();
  };
  return (
    <div className="tabs" role="tablist" aria-label="Workflow" onKeyDown={pressed}>
      {VIEWS.map((view) => (
        <button
          key={view}
          type="button"
          className="tab"
          role="tab"
          id={`wf-tab-${view}`}
          aria-controls={view === props.view ? `wf-${view}` : undefined}
          aria-selected={view === props.view}
          tabIndex={view === props.view ? 0 : -1}
          onClick={() => props.choose(view)}
        >
          {LABELS[view]}
          {numbers[view] !== undefined && <span className="n">{numbers[view]?.toLocaleString("en")}</span>}
        </button>
      ))}
    </div>
  );
}

function became(status: RunStatus): string {
  const word = statusWord(status).toLowerCase();
  if (status === "cancelled") return `was ${word}`;
  return isEnded(status) ? word : `is ${word}`;
}

/** How its last runs went, in one sentence. */
function Answer({ name, data }: { name: string; data: WorkflowDetail }) {
  const runs = useQuery(lastRunsQuery(name)).data?.runs;
  if (!runs) return <p className="answer">&nbsp;</p>;
  if (!runs.length) return <p className="answer">It has not run yet</p>;
  const completed = runs.filter((run) => run.status === "completed").length;
  const slow = p95(runs);
  const old = runs.filter(
    (run) => run.version !== data.version && ["pending", "running", "suspended"].includes(run.status),
  );
  return (
    <p className="answer">
      {runs.length === 1
        ? `Its only run ${became(runs[0]?.status ?? "pending")}`
        : `${completed} of the last ${runs.length} runs completed`}
      {slow !== null && `, p95 ${duration(slow)}`}
      {old.length > 0 &&
        `; ${old.length} ${old.length === 1 ? "run still uses" : "runs still use"} ${version(old[0]?.version ?? "")}`}
    </p>
  );
}

function describe(data: WorkflowDetail): string {
  const definition = data.definition as { nodes?: unknown[]; places?: unknown[] } | null;
  if (data.kind === "graph") return `graph, ${definition?.nodes?.length ?? 0} nodes`;
  if (data.kind === "machine") return `state machine, ${definition?.places?.length ?? 0} places`;
  return "function";
}

function Overview({ name, data, description }: { name: string; data: WorkflowDetail; description: string }) {
  return (
    <div className="scroll wfbody">
      {description && <p className="t2 measure wfdesc">{description}</p>}
      {data.kind !== "function" && (
        <div className="wfcanvas">
          <DefinitionCanvas
            name={name}
            version={data.version}
            kind={data.kind}
            definition={data.definition}
          />
        </div>
      )}
      <div className="stategrid">
        <section>
          <h2 className="h3">Input</h2>
          {data.input_schema === true ? (
            <p className="t2">Any JSON value.</p>
          ) : (
            <JsonView value={data.input_schema} name="input-schema" />
          )}
        </section>
        {data.form != null && (
          <section>
            <h2 className="h3">Start form</h2>
            <JsonView value={data.form} name="form" />
          </section>
        )}
        {data.kind === "function" && (
          <section>
            <h2 className="h3">Defined in</h2>
            <JsonView value={data.definition} name="definition" />
          </section>
        )}
        <section>
          <h2 className="h3">This version</h2>
          <dl className="facts wide">
            <dt>Version</dt>
            <dd>{version(data.version)}</dd>
            <dt>Hash</dt>
            <dd className="mono">{data.hash.slice(0, 16)}</dd>
            <Made data={data} />
          </dl>
        </section>
      </div>
    </div>
  );
}

function Made({ data }: { data: WorkflowDetail }) {
  if (!data.created_at) return null;
  return (
    <>
      <dt>Created</dt>
      <dd>
        <Ago at={Date.parse(data.created_at)} />
        {data.created_by && ` by ${data.created_by}`}
      </dd>
    </>
  );
}

function LastRuns({ name }: { name: string }) {
  const runs = useQuery(lastRunsQuery(name));
  const rows = runs.data?.runs ?? [];
  if (runs.data && !rows.length) {
    return (
      <EmptyState icon={<Play className="i l" aria-hidden="true" />} title="It has not run yet">
        Press Run above, or start it from a program.
      </EmptyState>
    );
  }
  return (
    <div className="scroll">
      <table className="table runs">
        <thead>
          <tr>
            <th scope="col">Status</th>
            <th scope="col">Run</th>
            <th scope="col">Workflow</th>
            <th scope="col">Where it is, and why</th>
            <th scope="col" className="num">
              Started
            </th>
            <th scope="col" className="num">
              Duration
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((run, index) => (
            <RunRow key={run.id} run={run} index={index + 2} current={false} />
          ))}
        </tbody>
      </table>
      <p className="tfoot">
        <Link className="link" to="/runs" search={{ workflow: name } as never}>
          All runs of {name}
        </Link>
      </p>
    </div>
  );
}
