import { queryOptions } from "@tanstack/react-query";
import { api, ask, type Run, type Wait } from "../../api/client";

/** An open approval and the run that asks. */
export interface Approval {
  id: string;
  run: Run;
  wait: Wait;
}

/** Open approvals of the runs that wait, newest first. */
export const approvalsQuery = queryOptions({
  queryKey: ["approvals"],
  queryFn: async ({ signal }): Promise<Approval[]> => {
    const page = await ask(
      api.GET("/api/v1/runs", { params: { query: { status: ["suspended"], limit: 200 } }, signal }),
    );
    const asking = page.runs.filter((run) => run.where.includes("approval")).slice(0, 50);
    const waits = await Promise.all(
      asking.map((run) =>
        ask(api.GET("/api/v1/runs/{run_id}/waits", { params: { path: { run_id: run.id } }, signal })),
      ),
    );
    return asking.flatMap((run, index) =>
      (waits[index]?.waits ?? [])
        .filter((wait) => wait.what === "approval")
        .map((wait) => ({ id: `${run.id} ${wait.path}`, run, wait })),
    );
  },
});
