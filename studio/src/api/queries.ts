import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { asQuery, type RunFilters } from "../domain/filters";
import { api, ask } from "./client";

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

export function runQuery(id: string) {
  return queryOptions({
    queryKey: ["run", id],
    queryFn: ({ signal }) =>
      ask(api.GET("/api/v1/runs/{run_id}", { params: { path: { run_id: id } }, signal })),
  });
}

export function whyQuery(id: string, seq: number) {
  return queryOptions({
    queryKey: ["why", id, seq],
    queryFn: ({ signal }) =>
      ask(api.GET("/api/v1/runs/{run_id}/why", { params: { path: { run_id: id } }, signal })),
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
