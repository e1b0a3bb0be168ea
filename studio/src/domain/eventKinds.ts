import type { RunEvent } from "./run";
import { asProblem, brief, cause } from "./where";

/** Events in groups that a reader thinks in, and in one line each. */

export const EVENT_GROUPS = ["Steps", "Waits", "Timers", "Messages", "Run"] as const;
export type EventGroup = (typeof EVENT_GROUPS)[number];

export function groupOf(kind: string): EventGroup {
  if (/^(step|transition|node|loop|join|merge|child|document|value|compensation)/.test(kind)) return "Steps";
  if (/^wait/.test(kind)) return "Waits";
  if (/^timer/.test(kind)) return "Timers";
  if (/^(received|published|progress)/.test(kind)) return "Messages";
  return "Run";
}

export function isFailure(event: RunEvent): boolean {
  return /failed$|timed_out$|^lease_lost$/.test(event.kind) || event.data.outcome === "timed_out";
}

/** "592 tokens (512 in, 80 out), cost 0.004": what a model used, '' if there was none. */
export function usageWords(used: { input: number; output: number; cost: number }): string {
  const count = (value: number) => value.toLocaleString("en");
  const tokens = used.input + used.output;
  const parts = [
    tokens > 0 && `${count(tokens)} tokens (${count(used.input)} in, ${count(used.output)} out)`,
    used.cost > 0 && `cost ${Number(used.cost.toPrecision(3))}`,
  ];
  return parts.filter(Boolean).join(", ");
}

export function summary(event: RunEvent): string {
  const { data } = event;
  const error = asProblem(data.error);
  if (error) {
    const again = typeof data.retry_in === "number" ? `, retry in ${data.retry_in.toFixed(1)} s` : "";
    return cause(error) + again;
  }
  switch (event.kind) {
    case "accepted":
      return brief(data.input);
    case "claimed":
      return `worker ${String(data.worker)}`;
    case "lease_lost":
      return "the worker died or froze";
    case "transition_completed":
      return `${String(data.source)} → ${String(data.target)}`;
    case "wait_opened":
      return [data.what, data.name, data.title && `“${String(data.title)}”`].filter(Boolean).join(" ");
    case "wait_ended":
      return String(data.outcome);
    case "received":
      return [data.what, data.name, data.by && `by ${String(data.by)}`, brief(data.payload)]
        .filter(Boolean)
        .join(" ");
    case "timer_set":
      return `${String(data.seconds)} s`;
    case "child_started":
      return `${String(data.workflow)} ${String(data.run)}`;
    case "usage_reported":
      return usageWords({
        input: Number(data.input_tokens ?? 0),
        output: Number(data.output_tokens ?? 0),
        cost: Number(data.cost ?? 0),
      });
    case "details_reported":
      return brief(data.details, 120);
    case "loop_started":
      return typeof data.count === "number" ? `${data.count} items` : "";
    case "loop_advanced":
      return `${String(data.done)} of ${String(data.count)}`;
    case "loop_completed":
      return `${String(data.done)} done${data.failed ? `, ${String(data.failed)} failed` : ""}`;
    case "progress":
      return [data.total ? `${String(data.done)} / ${String(data.total)}` : String(data.done), data.text]
        .filter(Boolean)
        .join(" ");
    default: {
      const value = data.result ?? data.output ?? data.value ?? data.data ?? data.reason;
      return value === undefined ? "" : brief(value, 120);
    }
  }
}
