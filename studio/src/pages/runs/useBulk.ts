import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { ApiProblem, api, ask, type Run, type Schemas } from "../../api/client";
import { histogramQuery } from "../../api/queries";
import { type BulkVerb, bulkBody, countable, type RunFilters, takes } from "../../domain/filters";
import { totals } from "../../domain/histogram";
import { isEnded, type RunStatus } from "../../domain/status";

type Job = Schemas["BulkJobView"];

/** What a bulk job would be about: the chosen runs, or all that match. */
export interface Bulk {
  job: Job | null;
  over: boolean;
  problem: string;
  all: boolean;
  setAll: (all: boolean) => void;
  matching: number | null; // null: nobody knows without looking
  count: (verb: BulkVerb) => number | null;
  wanted: number | null; // of the job
  start: (verb: BulkVerb) => Promise<void>;
  clear: () => void;
}

export function useBulk(filters: RunFilters, chosen: Run[], open: boolean): Bulk {
  const queries = useQueryClient();
  const [all, setAll] = useState(false);
  const [job, setJob] = useState<Job | null>(null);
  const [wanted, setWanted] = useState<number | null>(null);
  const [problem, setProblem] = useState("");
  const counted = useQuery({ ...histogramQuery(filters, 1), enabled: open && countable(filters) });
  const sums = counted.data && totals(counted.data);
  const matching = sums ? Object.values(sums).reduce((sum, each) => sum + (each ?? 0), 0) : null;
  const count = (verb: BulkVerb) => {
    if (!all) return chosen.filter((run) => takes(verb, run.status)).length;
    if (!sums) return null;
    return Object.entries(sums).reduce(
      (sum, [status, each]) => sum + (takes(verb, status as RunStatus) ? (each ?? 0) : 0),
      0,
    );
  };
  const id = job?.id;
  const over = job ? isEnded(job.status as RunStatus) : true;
  useEffect(() => {
    if (!id || over) return;
    const timer = window.setInterval(() => {
      ask(api.GET("/api/v1/bulk/{job_id}", { params: { path: { job_id: id } } }))
        .then(setJob)
        .catch(() => {}); // the job goes on without us; the next look finds it
    }, 500);
    return () => window.clearInterval(timer);
  }, [id, over]);
  useEffect(() => {
    if (over && id)
      for (const key of ["runs", "histogram", "counts"]) void queries.invalidateQueries({ queryKey: [key] });
  }, [over, id, queries]);
  const start = async (verb: BulkVerb) => {
    setProblem("");
    const named = { runs: chosen.filter((run) => takes(verb, run.status)).map((run) => run.id) };
    const body = (all ? bulkBody(filters, verb, Date.now()) : named) as never;
    const path = `/api/v1/bulk/${verb}` as "/api/v1/bulk/retry";
    try {
      setWanted(count(verb));
      setJob(await ask(api.POST(path, { body })));
    } catch (error) {
      setProblem(error instanceof ApiProblem ? error.message : String(error));
    }
  };
  const clear = () => {
    setJob(null);
    setProblem("");
    setAll(false);
  };
  return { job, over, problem, all, setAll, matching, count, wanted, start, clear };
}
