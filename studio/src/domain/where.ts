import { placeName } from "./path";
import type { RunStatus } from "./status";

/** What the list needs of a run to say where it is, and why. */
export interface RunFacts {
  status: RunStatus;
  where: string;
  output: unknown;
  error: unknown;
  position?: Position | null | undefined;
}

/** Where a run is or how it ended, from the end of its log. */
export interface Position {
  path: string;
  attempt: number;
  retry_at?: string | null;
  error?: string;
  done?: number | null;
  total?: number | null;
  text?: string;
}

export interface Where {
  place: string; // mono: a step, place or node
  words: string;
  done?: number;
  total?: number;
  attempt?: number;
  attempts?: number; // of the step that failed, if it was more than one
  retryAt?: number; // milliseconds
}

export interface Problem {
  code?: string;
  message?: string;
  type?: string;
  hint?: string;
  path?: string;
  traceback?: string;
}

export function asProblem(value: unknown): Problem | null {
  return value !== null && typeof value === "object" && "message" in value ? (value as Problem) : null;
}

/** The cause alone: without the place that "0/charge#1 failed: …" and "charge: …" begin with. */
export function cause(problem: Problem): string {
  let text = problem.message ?? "";
  if (problem.path && text.startsWith(`${problem.path} failed: `)) {
    text = text.slice(problem.path.length + 9);
  } else if (problem.path && text.startsWith(`${placeName(problem.path)}: `)) {
    text = text.slice(placeName(problem.path).length + 2);
  } else if (problem.type && !text.startsWith(problem.type)) {
    text = `${problem.type}: ${text}`;
  }
  return text;
}

export function where(run: RunFacts): Where {
  switch (run.status) {
    case "failed":
    case "timed_out": {
      const problem = asProblem(run.error);
      if (!problem) return { place: shortPlace(run.where), words: "" };
      const tried = run.position?.path === problem.path ? (run.position?.attempt ?? 0) : 0;
      return {
        place: placeName(problem.path || run.where),
        words: cause(problem),
        ...(tried > 1 ? { attempts: tried } : {}),
      };
    }
    case "completed":
      return { place: "", words: outcome(run.output) };
    case "cancelled": {
      const problem = asProblem(run.error);
      return { place: "", words: problem ? cause(problem) : (run.position?.text ?? run.where) };
    }
    case "running":
      return run.position ? running(run.position) : waiting(run.where);
    case "pending":
      return { place: "", words: run.position?.text || run.where };
    default:
      return waiting(run.where);
  }
}

function running(position: Position): Where {
  const place = shortPlace(position.path);
  if (position.retry_at) {
    return {
      place,
      words: position.error ?? "",
      attempt: position.attempt,
      retryAt: Date.parse(position.retry_at),
    };
  }
  if (typeof position.done === "number" && position.total) {
    return { place, words: "", done: position.done, total: position.total };
  }
  return { place, words: position.text ?? "" };
}

/** "waiting for approval sign" and "at review: waiting for …" have their place split off. */
function waiting(text: string): Where {
  const at = /^at ([^:]+): (.*)$/.exec(text);
  if (at) return { place: at[1] ?? "", words: (at[2] ?? "").replace(", waiting for ", " waits for ") };
  const wait = /^waiting for (approval|signal|event|trigger|child) (.+)$/.exec(text);
  if (wait) return { place: wait[2] ?? "", words: `waits for ${article(wait[1] ?? "")}` };
  return /^[\d~/.:\w-]+[#@]?\d*$/.test(text) && text.includes("/")
    ? { place: shortPlace(text), words: "" }
    : { place: "", words: text };
}

/** A result in words: an object of one text is that text. */
function outcome(value: unknown): string {
  const parts = value !== null && typeof value === "object" ? Object.values(value) : [];
  return parts.length === 1 && typeof parts[0] === "string" ? brief(parts[0]) : brief(value);
}

function article(noun: string): string {
  return /^[aeiou]/.test(noun) ? `an ${noun}` : `a ${noun}`;
}

function shortPlace(text: string): string {
  // An item of a loop is told by the loop's progress.
  return text.includes("/") ? placeName(text).replace(/\[\d+\]$/, "") : text;
}

/** A value in one line: texts as they are, the rest as short JSON. */
export function brief(value: unknown, most = 90): string {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
