import { Link } from "@tanstack/react-router";
import { Workflow as GraphIcon, Route, SquareFunction } from "lucide-react";
import { api, ask, type Run } from "../../api/client";
import { statusWord } from "../../domain/status";
import { duration, instant } from "../../domain/time";

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
            style={{ height: `${6 + 14 * Math.sqrt(span / longest)}px` }}
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

export function failedOf(runs: Run[]): number {
  return runs.filter((run) => run.status === "failed" || run.status === "timed_out").length;
}

/** The time that 95 of 100 completed runs stay below, of those that are shown; null if none completed. */
export function p95(runs: Run[]): number | null {
  const spans = runs
    .filter((run) => run.status === "completed")
    .map(took)
    .sort((a, b) => a - b);
  return spans[Math.min(Math.floor(spans.length * 0.95), spans.length - 1)] ?? null;
}
