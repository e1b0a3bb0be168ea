import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { useTopic } from "../api/live";
import { approvalCountQuery, countsQuery, meQuery } from "../api/queries";

/** Numbers of the navigation, and who is signed in. */
export function useCounts() {
  const me = useQuery(meQuery);
  const queries = useQueryClient();
  // Every page follows the list, so that the stream of a tab never ends with a run.
  const received = useCallback(() => void queries.invalidateQueries({ queryKey: ["counts"] }), [queries]);
  useTopic("runs", received);
  const counts = useQuery(countsQuery);
  const approvals = useQuery(approvalCountQuery);
  return {
    running: counts.data?.statuses.running ?? 0,
    statuses: counts.data?.statuses,
    total: counts.data?.total,
    approvals: approvals.data?.waits.length ?? 0,
    me: me.data,
  };
}
