import { useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Play, Search } from "lucide-react";
import { useCallback, useMemo, useState } from "react";
import { useTopic } from "../../api/live";
import { schedulesQuery, workflowsQuery } from "../../api/queries";
import { Kbd } from "../../components/Kbd";
import { Skeleton } from "../../components/Skeleton";
import { useNow, useZoneName } from "../../components/Time";
import { usePageTitle } from "../../components/usePageTitle";
import { useRowCursor } from "../../components/useRowCursor";
import { absolute, coarse, duration, instant } from "../../domain/time";
import { version } from "../runs/RunRow";
import { failedOf, KindIcon, lastRunsQuery, p95, Sparks } from "./lastRuns";
import { NoWorkflows } from "./NoWorkflows";
import { StartDialog } from "./StartDialog";

const WITH_BARS = 60; // workflows whose last runs are shown

/** Workflows that runs can be started from, with their last runs. */
export function WorkflowsPage() {
  const list = useQuery(workflowsQuery);
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [filter, setFilter] = useState("");
  const [starting, setStarting] = useState("");
  usePageTitle("Workflows");
  const received = useCallback(
    (name: string, data: unknown) => {
      if (name !== "runs") return;
      for (const workflow of new Set((data as { workflow: string }[]).map((run) => run.workflow)))
        void queries.invalidateQueries({ queryKey: ["last runs", workflow] });
    },
    [queries],
  );
  useTopic("runs", received);
  const all = list.data?.workflows ?? [];
  const shown = all.filter((each) => each.name.toLowerCase().includes(filter.toLowerCase()));
  const lasts = useQueries({ queries: shown.slice(0, WITH_BARS).map((each) => lastRunsQuery(each.name)) });
  const schedules = useQuery({ ...schedulesQuery, retry: false });
  const next = useMemo(() => nextOf(schedules.data?.schedules ?? []), [schedules.data]);
  const at = useRowCursor(shown.length, (row) => {
    const name = shown[row]?.name;
    if (name) void navigate({ to: "/workflows/$name", params: { name } });
  });
  if (list.error && !list.data) throw list.error;
  return (
    <main className="main" id="main">
      <div className="pagehead">
        <h1>Workflows</h1>
        <span className="grow" />
        {all.length > 0 && (
          <div className="filterbox evfilter">
            <Search className="i s" aria-hidden="true" />
            <input
              className="bare"
              aria-label="Filter workflows"
              placeholder="Filter"
              data-filter
              value={filter}
              onChange={(event) => setFilter(event.target.value)}
            />
            <Kbd keys={["/"]} />
          </div>
        )}
      </div>
      {list.isPending && <Skeleton rows={6} />}
      {list.data && !all.length && <NoWorkflows />}
      {all.length > 0 && (
        <div className="scroll">
          <table className="table wft">
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col" className="hide-s">
                  Kind
                </th>
                <th scope="col">Version</th>
                <th scope="col">Last 20 runs</th>
                <th scope="col" className="num hide-s">
                  Failed
                </th>
                <th scope="col" className="num hide-s">
                  p95
                </th>
                <th scope="col" className="num hide-s">
                  Next
                </th>
                <th scope="col" className="num">
                  <span className="sr">Run</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((each, index) => {
                const runs = lasts[index]?.data?.runs;
                const failed = failedOf(runs ?? []);
                const slow = p95(runs ?? []);
                return (
                  <tr key={each.name} className={index === at ? "cur" : undefined}>
                    <td>
                      <span className="row wfname">
                        <KindIcon kind={each.kind} />
                        <Link className="mono med" to="/workflows/$name" params={{ name: each.name }}>
                          {each.name}
                        </Link>
                      </span>
                    </td>
                    <td className="t2 hide-s">{each.kind}</td>
                    <td>
                      <span className="row g1">
                        <span className="tag">{version(each.version)}</span>
                        {!each.enabled && <span className="tag st st-running">disabled</span>}
                      </span>
                    </td>
                    <td>
                      {runs?.length ? <Sparks runs={runs} /> : runs && <span className="t3">never ran</span>}
                    </td>
                    <td className="num hide-s">
                      {failed > 0 ? (
                        <span className="st-failed status">{failed} failed</span>
                      ) : (
                        runs && runs.length > 0 && <span className="t3">none failed</span>
                      )}
                    </td>
                    <td className="num t2 hide-s">{slow === null ? "—" : duration(slow)}</td>
                    <td className="num t2 hide-s">
                      <Next at={next.get(each.name)} />
                    </td>
                    <td className="num">
                      <button
                        type="button"
                        className="btn sm"
                        aria-label={`Start ${each.name}`}
                        onClick={() => setStarting(each.name)}
                      >
                        <Play className="i" aria-hidden="true" />
                        Run…
                      </button>
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
          {shown.length > 0 ? (
            <p className="tfoot xs t3">
              {all.length} {all.length === 1 ? "workflow" : "workflows"}. Each bar is a run: its height is the
              duration, its colour the status.
            </p>
          ) : (
            <p className="tfoot t2">
              No workflow has “{filter}” in its name.{" "}
              <button type="button" className="linkbtn" onClick={() => setFilter("")}>
                Show all {all.length}
              </button>
            </p>
          )}
        </div>
      )}
      {starting && <StartDialog name={starting} close={() => setStarting("")} />}
    </main>
  );
}

/** When each workflow is started next by a schedule that is not paused. */
function nextOf(
  schedules: { workflow: string; paused: boolean; next_at: string | null }[],
): Map<string, number> {
  const next = new Map<string, number>();
  for (const each of schedules) {
    const at = each.paused ? null : instant(each.next_at);
    if (at !== null) next.set(each.workflow, Math.min(at, next.get(each.workflow) ?? at));
  }
  return next;
}

function Next({ at }: { at: number | undefined }) {
  const zone = useZoneName();
  const now = useNow(30_000);
  if (at === undefined) return "—";
  return (
    <Link to="/schedules" className="link" title={absolute(at, zone)}>
      in {coarse(Math.max(at - now, 0)) || "a moment"}
    </Link>
  );
}
