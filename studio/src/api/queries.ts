import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { asQuery, countable, groupQuery, moment, type RunFilters } from "../domain/filters";
import type { Bucket } from "../domain/histogram";
import { api, ask, type Run } from "./client";

/** What the pages read, by key. Live events change these caches; nothing is fetched twice for one screen. */

export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/me", { signal })),
  staleTime: 60_000,
});

export function runsQuery(filters: RunFilters) {
  return infiniteQueryOptions({
    queryKey: ["runs", filters],
    queryFn: ({ pageParam, signal }) =>
      ask(
        api.GET("/api/v1/runs", {
          params: {
            query: {
              ...asQuery(filters, Date.now()),
              ...(pageParam ? { cursor: pageParam } : {}),
              limit: 100,
            },
          },
          signal,
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.cursor,
  });
}

const BUCKETS = 96;

/** Runs in buckets of time. Filters that only a look at each run can answer have none. */
export function histogramQuery(filters: RunFilters, buckets = BUCKETS) {
  return queryOptions({
    queryKey: ["histogram", filters, buckets],
    queryFn: async ({ signal }): Promise<Bucket[]> => {
      const now = Date.now();
      const since = moment(filters.since, now) || moment(buckets > 1 ? "24h" : "5200w", now);
      const until = moment(filters.until, now);
      const answer = await ask(
        api.GET("/api/v1/histogram", {
          params: { query: { ...groupQuery(filters), since, ...(until ? { until } : {}), buckets } },
          signal,
        }),
      );
      return answer.buckets.map((each) => ({ start: Date.parse(each.start), statuses: each.statuses }));
    },
    enabled: countable(filters),
    refetchInterval: buckets > 1 ? 30_000 : false,
  });
}

/** Where the runs of these statuses are: one request for all of them, as long as somebody looks. */
function positions(status: Run["status"][], again: number | false) {
  return queryOptions({
    queryKey: ["positions", ...status],
    queryFn: async ({ signal }) => {
      const page = await ask(api.GET("/api/v1/runs", { params: { query: { status, limit: 50 } }, signal }));
      return new Map(page.runs.map((run) => [run.id, run.position ?? null]));
    },
    refetchInterval: again,
  });
}

/** The runs that workers have now, with where they are. */
export const workedOnQuery = queryOptions({
  queryKey: ["worked on"],
  queryFn: ({ signal }) =>
    ask(api.GET("/api/v1/runs", { params: { query: { status: ["running"], limit: 50 } }, signal })),
});

export const positionsQuery = positions(["running", "pending"], 3_000);
/** How the last runs that failed or were cancelled came to that: their rows in the stream do not say it. */
export const endingsQuery = positions(["failed", "timed_out", "cancelled"], false);

export function runQuery(id: string) {
  return queryOptions({
    queryKey: ["run", id],
    queryFn: ({ signal }) =>
      ask(api.GET("/api/v1/runs/{run_id}", { params: { path: { run_id: id } }, signal })),
  });
}

const EVENTS_PAGE = 1000;

/** Events of a run after a seq, oldest first. */
export function readEvents(id: string, after: number) {
  return ask(
    api.GET("/api/v1/runs/{run_id}/events", {
      params: { path: { run_id: id }, query: { after, limit: EVENTS_PAGE } },
    }),
  );
}

/** The first of them: a page that is about to show the run asks early. */
export function firstEventsQuery(id: string) {
  return queryOptions({ queryKey: ["events", id], queryFn: () => readEvents(id, 0) });
}

export function whyQuery(id: string, seq: number) {
  return queryOptions({
    queryKey: ["why", id, seq],
    queryFn: ({ signal }) =>
      ask(api.GET("/api/v1/runs/{run_id}/why", { params: { path: { run_id: id } }, signal })),
  });
}

export function overviewQuery(id: string, seq: number) {
  return queryOptions({
    queryKey: ["overview", id, seq],
    queryFn: ({ signal }) =>
      ask(api.GET("/api/v1/runs/{run_id}/overview", { params: { path: { run_id: id } }, signal })),
    enabled: seq > 0,
    placeholderData: (before) => before,
  });
}

export function stateQuery(id: string, seq: number) {
  return queryOptions({
    queryKey: ["state", id, seq],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/api/v1/runs/{run_id}/state", { params: { path: { run_id: id }, query: { seq } }, signal }),
      ),
    enabled: seq > 0,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

export function documentsQuery(id: string, seq: number) {
  return queryOptions({
    queryKey: ["documents", id, seq],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/api/v1/runs/{run_id}/documents", {
          params: { path: { run_id: id }, query: { seq } },
          signal,
        }),
      ),
    enabled: seq > 0,
  });
}

export function documentQuery(id: string, name: string, version: number, enabled: boolean) {
  return queryOptions({
    queryKey: ["document", id, name, version],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/api/v1/runs/{run_id}/documents/{name}", {
          params: { path: { run_id: id, name }, query: { version } },
          signal,
        }),
      ),
    enabled,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

export const workflowsQuery = queryOptions({
  queryKey: ["workflows"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/workflows", { signal })),
});

export function workflowQuery(name: string, version = "") {
  return queryOptions({
    queryKey: ["workflow", name, version],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/api/v1/workflows/{name}", {
          params: { path: { name }, query: version ? { version } : {} },
          signal,
        }),
      ),
    staleTime: version ? Number.POSITIVE_INFINITY : 10_000,
  });
}

export const limitsQuery = queryOptions({
  queryKey: ["limits"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/limits", { signal })),
});

export const keysQuery = queryOptions({
  queryKey: ["keys"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/keys", { signal })),
});

export const aboutQuery = queryOptions({
  queryKey: ["about"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/about", { signal })),
  staleTime: 60_000,
});

export const countsQuery = queryOptions({
  queryKey: ["counts"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/counts", { signal })),
});

export const approvalCountQuery = queryOptions({
  queryKey: ["counts", "approvals"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/approvals", { params: { query: { limit: 100 } }, signal })),
});

export const webhooksQuery = queryOptions({
  queryKey: ["webhooks"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/webhooks", { params: { query: { limit: 1000 } }, signal })),
});

/** Names and uses of the secrets, never their values; admins only. */
export const secretsQuery = queryOptions({
  queryKey: ["secrets"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/secrets", { params: { query: { limit: 999 } }, signal })),
});

export const schedulesQuery = queryOptions({
  queryKey: ["schedules"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/schedules", { params: { query: { limit: 1000 } }, signal })),
});

export const triggersQuery = queryOptions({
  queryKey: ["triggers"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/triggers", { params: { query: { limit: 1000 } }, signal })),
});

export const alertsQuery = queryOptions({
  queryKey: ["alerts"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/alerts", { signal })),
});

export const collectionsQuery = queryOptions({
  queryKey: ["records"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/records", { params: { query: { limit: 1000 } }, signal })),
});

export function collectionQuery(collection: string) {
  return queryOptions({
    queryKey: ["records", collection],
    queryFn: ({ signal }) =>
      ask(api.GET("/api/v1/records/{collection}", { params: { path: { collection } }, signal })),
  });
}

export function recordQuery(collection: string, id: string) {
  return queryOptions({
    queryKey: ["records", collection, "one", id],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/api/v1/records/{collection}/items/{record_id}", {
          params: { path: { collection, record_id: id } },
          signal,
        }),
      ),
    refetchInterval: 10_000,
  });
}

/** Records of a collection, a page at a time; `where` has indexed fields and their values. */
export function recordsQuery(collection: string, where: string) {
  return infiniteQueryOptions({
    queryKey: ["records", collection, "found", where],
    queryFn: ({ pageParam, signal }) =>
      ask(
        api.GET("/api/v1/records/{collection}/items", {
          params: {
            path: { collection },
            query: {
              limit: 100,
              ...(where ? { where } : {}),
              ...(pageParam ? { cursor: pageParam } : {}),
            },
          },
          signal,
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.cursor,
  });
}

export const workersQuery = queryOptions({
  queryKey: ["workers"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/workers", { signal })),
});

export const queuesQuery = queryOptions({
  queryKey: ["queues"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/queues", { signal })),
});

export const databaseQuery = queryOptions({
  queryKey: ["database"],
  queryFn: ({ signal }) => ask(api.GET("/api/v1/database", { signal })),
});

/** Versions of a workflow with who made them, oldest first. */
export function versionsQuery(name: string) {
  return queryOptions({
    queryKey: ["workflow", name, "versions"],
    queryFn: ({ signal }) =>
      ask(api.GET("/api/v1/workflows/{name}/versions", { params: { path: { name } }, signal })),
  });
}
