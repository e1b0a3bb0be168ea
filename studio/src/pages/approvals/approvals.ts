import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, ask, type Schemas } from "../../api/client";
import { words } from "../../domain/schema";

/** An open approval of some run. */
export type Approval = Schemas["OpenWaitView"];
export type Decision = Schemas["DecisionView"];
/** One that people, or time, decided. */
export type Decided = Schemas["DecidedApprovalView"];

/** Whose approvals are listed: those that I may decide, those of my roles, or all. */
export type Whose = "me" | "team" | "all";

/** Which one it is: a run may ask several people at once. */
export function approvalId(approval: Approval): string {
  return `${approval.run} ${approval.path}`;
}

export function decidedId(decided: Decided): string {
  return `${decided.run} ${decided.path} ${decided.decided_at}`;
}

export function titleOf(approval: { title: string; name: string }): string {
  return approval.title || words(approval.name || "approval");
}

/** Open approvals, newest first. */
export function approvalsQuery(whose: Whose, me: Schemas["MeView"] | undefined) {
  const filter =
    whose === "all" || !me ? {} : whose === "me" ? { assignee: me.name, role: me.roles } : { role: me.roles };
  return queryOptions({
    queryKey: ["approvals", whose],
    queryFn: async ({ signal }) =>
      (await ask(api.GET("/api/v1/approvals", { params: { query: { ...filter, limit: 200 } }, signal })))
        .waits,
    enabled: me !== undefined,
  });
}

/** Decided approvals of all runs, the last one first. */
export const decidedQuery = infiniteQueryOptions({
  queryKey: ["approvals", "decided"],
  queryFn: ({ pageParam, signal }) =>
    ask(
      api.GET("/api/v1/approvals/decided", { params: { query: { cursor: pageParam, limit: 50 } }, signal }),
    ),
  initialPageParam: "",
  getNextPageParam: (page) => page.cursor ?? undefined,
});

/** What one run waits for, with the votes that were given. */
export function waitsQuery(run: string) {
  return queryOptions({
    queryKey: ["approvals", "waits", run],
    queryFn: ({ signal }) =>
      ask(api.GET("/api/v1/runs/{run_id}/waits", { params: { path: { run_id: run } }, signal })),
  });
}

/** Who decided what this run waited for. */
export function decisionsQuery(run: string) {
  return queryOptions({
    queryKey: ["approvals", "decisions", run],
    queryFn: ({ signal }) =>
      ask(api.GET("/api/v1/runs/{run_id}/decisions", { params: { path: { run_id: run } }, signal })),
  });
}
