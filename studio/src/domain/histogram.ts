import type { RunStatus } from "./status";

/** Runs in buckets of time, as bars: what went well at the bottom, what needs a look above it. */

export interface Bucket {
  start: number; // milliseconds
  statuses: Partial<Record<RunStatus, number>>;
}

export interface Segment {
  kind: "ok" | "off" | "run" | "wait" | "fail";
  from: number; // shares of the height
  to: number;
}

const KINDS: [Segment["kind"], RunStatus[]][] = [
  ["ok", ["completed"]],
  ["off", ["cancelled", "pending"]],
  ["run", ["running"]],
  ["wait", ["suspended"]],
  ["fail", ["failed", "timed_out"]],
];

export function total(bucket: Bucket): number {
  return Object.values(bucket.statuses).reduce((sum, count) => sum + (count ?? 0), 0);
}

export function segments(bucket: Bucket, most: number): Segment[] {
  const out: Segment[] = [];
  let at = 0;
  for (const [kind, statuses] of KINDS) {
    const count = statuses.reduce((sum, status) => sum + (bucket.statuses[status] ?? 0), 0);
    if (!count || !most) continue;
    out.push({ kind, from: at / most, to: (at + count) / most });
    at += count;
  }
  return out;
}

/** How many runs of each status, over all buckets. */
export function totals(buckets: Bucket[]): Partial<Record<RunStatus, number>> {
  const sums: Partial<Record<RunStatus, number>> = {};
  for (const bucket of buckets) {
    for (const [status, count] of Object.entries(bucket.statuses)) {
      sums[status as RunStatus] = (sums[status as RunStatus] ?? 0) + (count ?? 0);
    }
  }
  return sums;
}

/** A range of buckets that a person chooses: first and last, both included. */
export interface Brush {
  first: number;
  last: number;
}

/** Arrows move it, Shift widens it, each by one bucket. */
export function moved(brush: Brush, by: number, widen: boolean, count: number): Brush {
  if (widen) {
    const last = Math.min(Math.max(brush.last + by, brush.first), count - 1);
    return { first: brush.first, last };
  }
  const size = brush.last - brush.first;
  const first = Math.min(Math.max(brush.first + by, 0), count - 1 - size);
  return { first, last: first + size };
}

export function ordered(one: number, other: number, count: number): Brush {
  const within = (at: number) => Math.min(Math.max(at, 0), count - 1);
  return { first: within(Math.min(one, other)), last: within(Math.max(one, other)) };
}
