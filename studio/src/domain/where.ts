import { placeName } from "./path";
import type { RunStatus } from "./status";

/** What the list needs of a run to say where it is, and why. */
export interface RunFacts {
  status: RunStatus;
  where: string;
  output: unknown;
  error: unknown;
}

export interface Where {
  place: string; // mono: a step, place or node
  words: string;
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

/** The cause alone: "0/charge#1 failed: RuntimeError: declined" is "RuntimeError: declined". */
export function cause(problem: Problem): string {
  let text = problem.message ?? "";
  if (problem.path && text.startsWith(`${problem.path} failed: `)) {
    text = text.slice(problem.path.length + 9);
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
      return { place: placeName(problem.path || run.where), words: cause(problem) };
    }
    case "completed":
      return { place: "", words: brief(run.output) };
    case "cancelled": {
      const problem = asProblem(run.error);
      return { place: "", words: problem ? cause(problem) : run.where };
    }
    default:
      return waiting(run.where);
  }
}

/** "waiting for approval sign" and "at review: waiting for …" have their place split off. */
function waiting(text: string): Where {
  const at = /^at ([^:]+): (.*)$/.exec(text);
  if (at) return { place: at[1] ?? "", words: at[2] ?? "" };
  const wait = /^waiting for (approval|signal|event|trigger|child) (.+)$/.exec(text);
  if (wait) return { place: wait[2] ?? "", words: `waits for ${article(wait[1] ?? "")}` };
  return /^[\d~/.:\w-]+[#@]?\d*$/.test(text) && text.includes("/")
    ? { place: shortPlace(text), words: "" }
    : { place: "", words: text };
}

function article(noun: string): string {
  return /^[aeiou]/.test(noun) ? `an ${noun}` : `a ${noun}`;
}

function shortPlace(text: string): string {
  return text.includes("/") ? placeName(text) : text;
}

/** A value in one line: texts as they are, the rest as short JSON. */
export function brief(value: unknown, most = 90): string {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
