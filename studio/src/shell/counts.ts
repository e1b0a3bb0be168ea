import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { useTopic } from "../api/live";
import { meQuery, runsQuery } from "../api/queries";
import { NO_FILTERS } from "../domain/filters";

/** Numbers of the navigation: from the newest runs, which the list has anyway. */
export function useCounts() {
  const me = useQuery(meQuery);
  const queries = useQueryClient();
  // Every page follows the list, so that the stream of a tab never ends with a run.
  const received = useCallback(() => void queries.invalidateQueries({ queryKey: ["counts"] }), [queries]);
  useTopic("runs", received);
  const options = runsQuery(NO_FILTERS);
  const newest = useQuery({
    queryKey: ["counts"],
    queryFn: async (context) => {
      const page = await options.queryFn?.({ ...context, pageParam: "", direction: "forward" } as never);
      const runs = page?.runs ?? [];
      return {
        running: runs.filter((run) => run.status === "running").length,
        approvals: runs.filter((run) => run.status === "suspended" && run.where.includes("approval")).length,
      };
    },
  });
  return { running: newest.data?.running ?? 0, approvals: newest.data?.approvals ?? 0, me: me.data };
}
