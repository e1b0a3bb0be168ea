import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Workflow as GraphIcon, Play, Route, Search, SquareFunction } from "lucide-react";
import { useEffect, useState } from "react";
import { api, ask, type Run } from "../api/client";
import { workflowsQuery } from "../api/queries";
import { Command, EmptyState } from "../components/EmptyState";
import { statusWord } from "../domain/status";
import { duration, instant } from "../domain/time";
import { version } from "./runs/RunRow";
import { StartDialog } from "./StartDialog";

/** Workflows that runs can be started from, with their last runs. */
export function WorkflowsPage() {
  const list = useQuery(workflowsQuery);
  const [filter, setFilter] = useState("");
  const [starting, setStarting] = useState("");
  useEffect(() => {
    document.title = "Workflows · Stepwell Studio";
  }, []);
  const all = list.data?.workflows ?? [];
  const shown = all.filter((each) => each.name.toLowerCase().includes(filter.toLowerCase()));
  const lasts = useQueries({ queries: shown.slice(0, 60).map((each) => lastRunsQuery(each.name)) });
  if (list.error) throw list.error;
  return (
    <main className="main" id="main">
      <div className="pagehead">
        <h1>Workflows</h1>
        <span className="grow" />
        <div className="filterbox evfilter">
          <Search className="i s" aria-hidden="true" />
          <input
            className="bare"
            aria-label="Filter workflows"
            placeholder="name"
            data-filter
            value={filter}
            onChange={(event) => setFilter(event.target.value)}
          />
        </div>
      </div>
      {list.data && !all.length ? (
        <EmptyState
          icon={<GraphIcon className="i l" aria-hidden="true" />}
          title="No workflows yet"
          action={<Command text="stepwell dev flows.py" />}
        >
          A worker that knows a workflow makes it known here. Write one in Python, or draw a graph.
        </EmptyState>
      ) : (
        <div className="scroll">
          <table className="table wft">
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Kind</th>
                <th scope="col">Version</th>
                <th scope="col">Last 20 runs</th>
                <th scope="col" className="num">
                  Median
                </th>
                <th scope="col" className="num">
                  <span className="sr">Start</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((each, index) => {
                const runs = lasts[index]?.data?.runs ?? [];
                const failed = runs.filter(
                  (run) => run.status === "failed" || run.status === "timed_out",
                ).length;
                return (
                  <tr key={each.name}>
                    <td>
                      <span className="row wfname">
                        <KindIcon kind={each.kind} />
                        <Link className="mono med" to="/workflows/$name" params={{ name: each.name }}>
                          {each.name}
                        </Link>
                        {each.enabled === false && <span className="tag">disabled</span>}
                      </span>
                    </td>
                    <td className="t2">{each.kind}</td>
                    <td className="t2">{version(each.version)}</td>
                    <td>
                      <span className="row">
                        <Sparks runs={runs} />
                        {failed > 0 && <span className="xs st-failed status">{failed} failed</span>}
                      </span>
                    </td>
                    <td className="num t2">{median(runs)}</td>
                    <td className="num">
                      <button
                        type="button"
                        className="btn sm"
                        aria-label={`Start ${each.name}`}
                        onClick={() => setStarting(each.name)}
                      >
                        <Play className="i" aria-hidden="true" />
                        Start
                      </button>
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      {starting && <StartDialog name={starting} close={() => setStarting("")} />}
    </main>
  );
}

export function lastRunsQuery(name: string) {
  return {
    queryKey: ["last runs", name],
    queryFn: () =>
      ask(
        api.GET("/api/v1/workflows/{name}/executions", { params: { path: { name }, query: { limit: 20 } } }),
      ),
    staleTime: 5_000,
  };
}

export function KindIcon({ kind }: { kind: string }) {
  const props = { className: "i", "aria-hidden": true } as const;
  return kind === "graph" ? (
    <GraphIcon {...props} />
  ) : kind === "machine" ? (
    <Route {...props} />
  ) : (
    <SquareFunction {...props} />
  );
}

const BAR: Record<string, string> = {
  failed: "fail",
  timed_out: "to",
  suspended: "wait",
  running: "run",
  pending: "off",
  cancelled: "off",
};

/** One bar a run, oldest first: height is duration, colour is status. A pointer opens it; keys open the workflow. */
export function Sparks({ runs }: { runs: Run[] }) {
  const spans = runs.map(took);
  const longest = Math.max(...spans, 1);
  return (
    <span className="sparks">
      {[...runs].reverse().map((run) => {
        const span = took(run);
        return (
          <Link
            key={run.id}
            tabIndex={-1}
            to="/runs/$id"
            params={{ id: run.id }}
            className={`sb ${BAR[run.status] ?? ""}`}
            aria-label={`${statusWord(run.status)}, ${duration(span)}`}
            title={`${statusWord(run.status)}, ${duration(span)}`}
            style={{ height: `${6 + 18 * Math.sqrt(span / longest)}px` }}
          />
        );
      })}
    </span>
  );
}

function took(run: Run): number {
  const start = instant(run.started_at);
  return start === null ? 0 : (instant(run.ended_at) ?? Date.now()) - start;
}

function median(runs: Run[]): string {
  const ended = runs
    .filter((run) => run.status === "completed")
    .map(took)
    .sort((a, b) => a - b);
  const middle = ended[Math.floor(ended.length / 2)];
  return middle === undefined ? "—" : duration(middle);
}
