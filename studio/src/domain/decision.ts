import { formShape, type JsonSchema } from "./schema";

/** How an approval is answered: with a verdict, a yes or no, or a form. */
export interface Decision {
  kind: "verdict" | "yes-no" | "form";
  schema: unknown; // of the fields to fill in, if any
  comment: boolean; // a verdict may carry one
}

export function decisionOf(form: unknown): Decision {
  if (form === null || form === undefined || form === true)
    return { kind: "yes-no", schema: null, comment: false };
  const schema = form as JsonSchema;
  const sides = Array.isArray(schema.anyOf) ? (schema.anyOf as JsonSchema[]) : [schema];
  if (sides.some((side) => isVerdict(side.enum))) {
    return { kind: "verdict", schema: null, comment: sides.some((side) => side.type === "object") };
  }
  if (schema.type === "boolean") return { kind: "yes-no", schema: null, comment: false };
  return { kind: "form", schema: formShape(schema) ? schema : null, comment: false };
}

function isVerdict(choices: unknown): boolean {
  return Array.isArray(choices) && choices.includes("approved") && choices.includes("denied");
}

/** The answer to send. `denied` has no value for a form: the workflow decides what a form may say. */
export function answerOf(decision: Decision, approve: boolean, value: unknown, comment: string): unknown {
  if (decision.kind === "verdict") {
    const response = approve ? "approved" : "denied";
    return decision.comment && comment ? { response, comment } : response;
  }
  return decision.kind === "yes-no" ? approve : value;
}
