import { formShape, type JsonSchema, plainSchema } from "./schema";

/** How an approval is answered: with a verdict, a yes or no, or a form. */
export interface Decision {
  kind: "verdict" | "yes-no" | "form";
  schema: unknown; // of the fields to fill in, if any
  comment: boolean; // a verdict may carry one in its answer
  denial: string; // the field of a form that says whether it is approved; "": it cannot be denied
}

const NO_FORM = { schema: null, comment: false, denial: "" } as const;

export function decisionOf(form: unknown): Decision {
  if (form === null || form === undefined || form === true) return { ...NO_FORM, kind: "yes-no" };
  const schema = form as JsonSchema;
  const sides = Array.isArray(schema.anyOf) ? (schema.anyOf as JsonSchema[]) : [schema];
  if (sides.some((side) => isVerdict(side.enum))) {
    return { ...NO_FORM, kind: "verdict", comment: sides.some((side) => side.type === "object") };
  }
  if (schema.type === "boolean") return { ...NO_FORM, kind: "yes-no" };
  if (!formShape(schema)) return { ...NO_FORM, kind: "form" };
  const plain = plainSchema(schema);
  const properties = (plain.properties ?? {}) as Record<string, JsonSchema>;
  const denial =
    properties.approved?.type === "boolean"
      ? "approved"
      : isVerdict(properties.response?.enum)
        ? "response"
        : "";
  return { ...NO_FORM, kind: "form", schema: denial ? without(schema, plain, denial) : schema, denial };
}

/** The buttons say it, so the form need not ask. */
function without(schema: JsonSchema, plain: JsonSchema, field: string): JsonSchema {
  const { [field]: _, ...properties } = plain.properties as Record<string, unknown>;
  const required = (Array.isArray(plain.required) ? plain.required : []).filter((name) => name !== field);
  return { ...plain, properties, required, $defs: schema.$defs };
}

function isVerdict(choices: unknown): boolean {
  return Array.isArray(choices) && choices.includes("approved") && choices.includes("denied");
}

export function canDeny(decision: Decision): boolean {
  return decision.kind !== "form" || decision.denial !== "";
}

/** The answer to send. A form that has no field for it cannot be denied: the workflow decides what it may say. */
export function answerOf(decision: Decision, approve: boolean, value: unknown, comment: string): unknown {
  const verdict = approve ? "approved" : "denied";
  if (decision.kind === "verdict") {
    return decision.comment && comment ? { response: verdict, comment } : verdict;
  }
  if (decision.kind === "yes-no") return approve;
  if (!decision.denial) return value;
  return { ...(value as object), [decision.denial]: decision.denial === "approved" ? approve : verdict };
}
