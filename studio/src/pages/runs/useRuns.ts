import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Run } from "../../api/client";
import { useLive, useTopic } from "../../api/live";
import { runsQuery } from "../../api/queries";
import { matches, type RunFilters } from "../../domain/filters";

export interface RunsList {
  runs: Run[];
  fresh: number; // how many new runs wait behind the strip
  show: () => void;
  loading: boolean;
  stale: boolean;
  error: Error | null;
  more: (() => void) | null;
  hold: (held: boolean) => void;
}

/** The rows of a filter, kept up to date by the stream. */
export function useRuns(filters: RunFilters): RunsList {
  const queries = useQueryClient();
  const options = useMemo(() => runsQuery(filters), [filters]);
  const pages = useInfiniteQuery(options);
  const held = useRef(false);
  const [waiting, setWaiting] = useState<Run[]>([]);
  const offline = useLive((stream) => stream.state === "offline");

  const change = useCallback(
    (update: (runs: Run[]) => Run[]) =>
      queries.setQueryData(options.queryKey, (data) => {
        const first = data?.pages[0];
        if (!data || !first) return data;
        const rest = data.pages.slice(1);
        return {
          ...data,
          pages: [
            { ...first, runs: update(first.runs) },
            ...rest.map((page) => ({ ...page, runs: update(page.runs) })),
          ],
        };
      }),
    [queries, options],
  );

  const received = useCallback(
    (name: string, data: unknown) => {
      if (name === "reset") {
        void queries.invalidateQueries({ queryKey: ["runs"] });
        return;
      }
      const changed = data as Run[];
      const known = new Set(
        queries.getQueryData(options.queryKey)?.pages.flatMap((page) => page.runs.map((run) => run.id)),
      );
      const byId = new Map(changed.map((run) => [run.id, run]));
      change((runs) => runs.map((run) => byId.get(run.id) ?? run));
      setWaiting((runs) => runs.map((run) => byId.get(run.id) ?? run));
      const others = changed.filter((run) => !known.has(run.id));
      const arrived = others.filter((run) => matches(run, filters) === true);
      if (arrived.length) setWaiting((runs) => merged(arrived, runs));
      // Only the server can say whether these match.
      else if (others.some((run) => matches(run, filters) === null) && !held.current) {
        void queries.invalidateQueries({ queryKey: options.queryKey });
      }
    },
    [queries, options, change, filters],
  );
  useTopic("runs", received);

  const show = useCallback(() => {
    setWaiting((arrived) => {
      if (arrived.length) {
        queries.setQueryData(options.queryKey, (data) => {
          const first = data?.pages[0];
          if (!data || !first) return data;
          return {
            ...data,
            pages: [{ ...first, runs: merged(arrived, first.runs) }, ...data.pages.slice(1)],
          };
        });
      }
      return [];
    });
  }, [queries, options]);

  // Nothing moves under the pointer; without one, new rows come at once.
  useEffect(() => {
    if (waiting.length && !held.current) show();
  }, [waiting, show]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another filter has other new runs
  useEffect(() => setWaiting([]), [options]);

  const runs = useMemo(() => pages.data?.pages.flatMap((page) => page.runs) ?? [], [pages.data]);
  return {
    runs,
    fresh: waiting.length,
    show,
    loading: pages.isPending,
    stale: offline || (pages.isError && runs.length > 0),
    error: pages.error,
    more: pages.hasNextPage && !pages.isFetchingNextPage ? () => void pages.fetchNextPage() : null,
    hold: (value) => {
      held.current = value;
    },
  };
}

function merged(arrived: Run[], runs: Run[]): Run[] {
  const ids = new Set(arrived.map((run) => run.id));
  return [...arrived, ...runs.filter((run) => !ids.has(run.id))].sort((a, b) => (a.id < b.id ? 1 : -1));
}
