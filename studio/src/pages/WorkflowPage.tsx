import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { ArrowLeft, Play, SearchX } from "lucide-react";
import { useCallback, useMemo, useState } from "react";
import { ApiProblem } from "../api/client";
import { workflowQuery } from "../api/queries";
import { Canvas, type EdgeLook, type Look } from "../canvas/Canvas";
import { EmptyState } from "../components/EmptyState";
import { JsonView } from "../components/JsonView";
import { chartDrawing, type Drawing, graphDrawing } from "../domain/graph";
import { RunRow, version } from "./runs/RunRow";
import { StartDialog } from "./StartDialog";
import { KindIcon, lastRunsQuery } from "./WorkflowsPage";

/** A workflow: its drawing or signature, its versions and its last runs. */
export function WorkflowPage() {
  const { name = "" } = useParams({ strict: false });
  const [chosen, setChosen] = useState("");
  const [starting, setStarting] = useState(false);
  const workflow = useQuery(workflowQuery(name, chosen));
  const runs = useQuery(lastRunsQuery(name));
  if (workflow.error instanceof ApiProblem && workflow.error.status === 404) {
    return (
      <main className="main" id="main">
        <EmptyState icon={<SearchX className="i l" aria-hidden="true" />} title={`No workflow ${name}`}>
          A worker that knows it makes it known here.
        </EmptyState>
      </main>
    );
  }
  if (workflow.error) throw workflow.error;
  const data = workflow.data;
  if (!data) return <main className="main" id="main" aria-busy="true" />;
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
          <span className="tag">{data.kind}</span>
          <span className="grow" />
          <select
            className="input versionpick"
            aria-label="Version"
            value={data.version}
            onChange={(event) => setChosen(event.target.value)}
          >
            {data.versions.map((each) => (
              <option key={each} value={each}>
                {version(each)}
              </option>
            ))}
          </select>
          <button type="button" className="btn primary" onClick={() => setStarting(true)}>
            <Play className="i" aria-hidden="true" />
            Start run
          </button>
        </div>
      </div>
      <div className="scroll wfbody">
        {data.kind === "function" ? (
          <div className="stategrid">
            <section>
              <h2 className="h3">Input</h2>
              <JsonView value={data.input_schema} name="input-schema" />
            </section>
            <section>
              <h2 className="h3">Defined in</h2>
              <JsonView value={data.definition} name="definition" />
            </section>
          </div>
        ) : (
          <div className="wfcanvas">
            <DefinitionCanvas
              name={name}
              version={data.version}
              kind={data.kind}
              definition={data.definition}
            />
          </div>
        )}
        <h2 className="h3 wfruns">Last runs</h2>
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
            {(runs.data?.runs ?? []).map((run, index) => (
              <RunRow key={run.id} run={run} index={index + 2} current={false} />
            ))}
          </tbody>
        </table>
        {runs.data && !runs.data.runs.length && <p className="t3 wfruns">It has not run yet.</p>}
      </div>
      {starting && <StartDialog name={name} close={() => setStarting(false)} />}
    </main>
  );
}

function DefinitionCanvas(props: { name: string; version: string; kind: string; definition: unknown }) {
  const machine = props.kind === "machine";
  const drawing: Drawing = useMemo(
    () => (machine ? chartDrawing(props.definition) : graphDrawing(props.definition)),
    [machine, props.definition],
  );
  const sizeOf = useCallback(
    (id: string) => {
      const node = drawing.nodes.find((each) => each.id === id);
      if (node?.type === "fork" || node?.type === "merge") return { width: 8, height: 44 };
      return { width: Math.max(96, id.length * 7.6 + 44), height: 40 };
    },
    [drawing],
  );
  const nodes = useMemo(
    () =>
      new Map<string, Look>(
        drawing.nodes.map((node) => {
          const gate = node.type === "fork" || node.type === "merge";
          const shape = machine ? `place${node.type === "end" ? " end" : ""}` : gate ? "gate" : "node";
          const content = gate ? null : (
            <span className="nm" key={node.id}>
              {node.name}
            </span>
          );
          return [node.id, { status: "idle", label: `${node.name}, ${node.type}`, shape, content }];
        }),
      ),
    [drawing, machine],
  );
  const edges = useMemo(
    () =>
      new Map<string, EdgeLook>(
        drawing.edges.map((edge) => [edge.id, { state: "pending", label: edge.label }]),
      ),
    [drawing],
  );
  return (
    <Canvas
      label={`Drawing of ${props.name}`}
      layoutKey={`definition ${props.name} ${props.version}`}
      drawing={drawing}
      sizeOf={sizeOf}
      nodes={nodes}
      edges={edges}
      selected=""
      select={() => {}}
    />
  );
}
