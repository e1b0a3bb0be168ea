import { queryOptions } from "@tanstack/react-query";
import { ApiProblem, root } from "./client";

/** The routes that only `stepwell demo` has, so they are not in the generated types. */
export interface Demo {
  run: string; // the order that moves
  seeded: Record<string, string>; // ids of the other runs, by key
  workers: { id: string; pid: number; alive: boolean; lease_until: string | null }[];
  pids: Record<string, number>; // of all workers so far, by id
  killed_pid: number | null;
  killed_at: string | null;
  lease_seconds: number;
}

export const demoQuery = queryOptions({
  queryKey: ["demo"],
  queryFn: async (): Promise<Demo | null> => {
    const answer = await fetch(`${root}/api/v1/demo`);
    return answer.ok ? ((await answer.json()) as Demo) : null; // other servers have no demo
  },
  staleTime: Number.POSITIVE_INFINITY,
});

export async function killWorker(worker: string): Promise<Demo> {
  const answer = await fetch(`${root}/api/v1/demo/kill`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ worker }),
  });
  if (!answer.ok) throw new ApiProblem(answer.status, "DEMO", "That worker is gone already.");
  return (await answer.json()) as Demo;
}
