/** Statuses of runs as the API names them, and of steps, which have three more. */
export type RunStatus =
  | "pending"
  | "running"
  | "suspended"
  | "completed"
  | "failed"
  | "cancelled"
  | "timed_out";

export type StepStatus = RunStatus | "retrying" | "skipped" | "idle";

export const RUN_STATUSES: readonly RunStatus[] = [
  "pending",
  "running",
  "suspended",
  "completed",
  "failed",
  "cancelled",
  "timed_out",
];

const WORDS: Record<StepStatus, string> = {
  pending: "Queued",
  running: "Running",
  suspended: "Waiting",
  completed: "Completed",
  failed: "Failed",
  cancelled: "Cancelled",
  timed_out: "Timed out",
  retrying: "Retrying",
  skipped: "Skipped",
  idle: "Not reached",
};

export function statusWord(status: StepStatus): string {
  return WORDS[status];
}

export function isEnded(status: StepStatus): boolean {
  return status === "completed" || status === "failed" || status === "cancelled" || status === "timed_out";
}
