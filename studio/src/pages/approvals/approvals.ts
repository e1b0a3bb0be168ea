import { queryOptions } from "@tanstack/react-query";
import { api, ask, type Schemas } from "../../api/client";

/** An open approval of some run. */
export type Approval = Schemas["OpenWaitView"];

/** Which one it is: a run may ask several people at once. */
export function approvalId(approval: Approval): string {
  return `${approval.run} ${approval.path}`;
}

/** Open approvals of all runs, newest first. */
export const approvalsQuery = queryOptions({
  queryKey: ["approvals"],
  queryFn: async ({ signal }) =>
    (await ask(api.GET("/api/v1/approvals", { params: { query: { limit: 200 } }, signal }))).waits,
});

/** What one run waits for, with the votes that were given. */
export function waitsQuery(run: string) {
  return queryOptions({
    queryKey: ["approvals", "waits", run],
    queryFn: ({ signal }) =>
      ask(api.GET("/api/v1/runs/{run_id}/waits", { params: { path: { run_id: run } }, signal })),
  });
}
