import type { Row, RunModel } from "./run";
import { attemptsAt, placeAt, progressAt, statusAt } from "./run";
import type { RunStatus } from "./status";
import { coarse, duration } from "./time";
import { brief, cause, type Problem } from "./where";

/** The sentence at the top of a run: what is going on, and why. Code is set in mono. */
export type Part = string | { code: string } | { strong: string };

export interface AnswerFacts {
  status: RunStatus;
  seq: number;
  now: number;
  why: string; // the server's reason, when it has one
  output: unknown;
  error: Problem | null;
}

export function answer(model: RunModel, facts: AnswerFacts): Part[] {
  switch (facts.status) {
    case "failed":
    case "timed_out":
      return ended(model, facts);
    case "completed": {
      const took = model.ending ? duration(model.ending.at - model.begin) : "";
      const result = brief(facts.output, 60);
      return [`Completed in ${took}`, ...(result ? [": ", { code: result }] : [])];
    }
    case "cancelled": {
      const by = model.ending?.by;
      const reason = model.ending?.reason;
      return [`Cancelled${by ? ` by ${by}` : ""}${reason ? `: ${reason}` : ""}`];
    }
    case "suspended":
      return waiting(model, facts);
    case "pending":
      return [sentence(facts.why || "Queued until a worker takes it")];
    default:
      return running(model, facts);
  }
}

function ended(model: RunModel, facts: AnswerFacts): Part[] {
  const error = facts.error ?? model.ending?.error ?? null;
  const verb = facts.status === "failed" ? "Failed" : "Timed out";
  const row = error?.path ? model.byPath.get(error.path) : undefined;
  if (!row) return [`${verb}${error ? `: ${cause(error)}` : ""}`];
  const attempts = row.attempts.length;
  return [
    `${verb} at `,
    { code: row.name },
    attempts > 1 ? ` after ${attempts} attempts` : "",
    error ? `: ${cause(error)}` : "",
  ];
}

function waiting(model: RunModel, facts: AnswerFacts): Part[] {
  const open = openRows(model, facts.seq);
  const place = placeAt(model, facts.seq);
  const first = open[0];
  if (place && first?.what === "trigger") {
    const choices =
      (first.open?.data.choices as { name: string }[] | undefined)?.map((choice) => choice.name) ?? [];
    return ["Waiting at ", { code: place.place }, choices.length ? ` for ${either(choices)}` : ""];
  }
  if (first) {
    const more = open.length > 1 ? `, and ${open.length - 1} more` : "";
    const noun = first.kind === "timer" ? "a timer" : article(first.what);
    return [
      "Waiting at ",
      { code: first.name },
      ` for ${noun}`,
      first.note && first.kind === "wait" ? `: ${first.note}` : "",
      more,
    ];
  }
  return [sentence(facts.why || "Waiting")];
}

function running(model: RunModel, facts: AnswerFacts): Part[] {
  const progress = progressAt(model, facts.seq);
  const crash = model.claims.filter((claim) => claim.lost && !claim.worker && claim.seq <= facts.seq).at(-1);
  const owner = model.claims.filter((claim) => claim.worker && claim.seq <= facts.seq).at(-1);
  const active = model.rows.filter((row) => ["running", "retrying"].includes(statusAt(row, facts.seq)));
  const row = active.at(-1);
  const parts: Part[] = [];
  if (progress?.text) parts.push(progress.text);
  else if (row) {
    const attempts = attemptsAt(row, facts.seq).length;
    const again = statusAt(row, facts.seq) === "retrying";
    parts.push(again ? "Will try " : "Running ", { code: row.name });
    if (again) parts.push(` again${row.retryAt ? `, attempt ${attempts + 1}` : ""}`);
    else if (attempts > 1) parts.push(`, attempt ${attempts}`);
    if (active.length > 1) parts.push(` and ${active.length - 1} more`);
  } else parts.push("Running");
  if (crash && owner && owner.seq > crash.seq) {
    parts.push(", on ", { strong: owner.worker.slice(0, 8) }, " since ", { strong: crash.lost.slice(0, 8) });
    const ago = coarse(facts.now - crash.at);
    parts.push(` was lost${ago ? ` ${ago} ago` : ""}`);
  } else if (crash) parts.push(`; worker ${crash.lost.slice(0, 8)} was lost, another one takes over`);
  return parts;
}

export function openRows(model: RunModel, seq: number): Row[] {
  return model.rows.filter((row) => statusAt(row, seq) === "suspended");
}

function either(names: string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}

function article(noun: string): string {
  return /^[aeiou]/.test(noun) ? `an ${noun}` : `a ${noun}`;
}

export function sentence(text: string): string {
  return text ? text[0]?.toUpperCase() + text.slice(1) : "";
}
