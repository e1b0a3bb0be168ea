import { describe, expect, it } from "vitest";
import { answerOf, canDeny, decisionOf } from "./decision";

const form = (properties: object) => ({
  $ref: "#/$defs/Form",
  $defs: { Form: { type: "object", properties, required: Object.keys(properties) } },
});

describe("an approval", () => {
  it("without a form is a yes or no", () => {
    const decision = decisionOf(null);
    expect([answerOf(decision, true, undefined, ""), answerOf(decision, false, undefined, "")]).toEqual([
      true,
      false,
    ]);
  });

  it("with a verdict may carry a comment", () => {
    const decision = decisionOf({ anyOf: [{ enum: ["approved", "denied"] }, { type: "object" }] });
    expect(answerOf(decision, false, undefined, "late")).toEqual({ response: "denied", comment: "late" });
    expect(answerOf(decision, true, undefined, "")).toBe("approved");
  });

  it("with a form is denied where the form has a field for it, and does not ask for that field", () => {
    const decision = decisionOf(form({ approved: { type: "boolean" }, amount: { type: "integer" } }));
    expect(canDeny(decision)).toBe(true);
    expect((decision.schema as { required: string[] }).required).toEqual(["amount"]);
    expect(answerOf(decision, false, { amount: 4 }, "")).toEqual({ approved: false, amount: 4 });
    const said = decisionOf(form({ response: { enum: ["approved", "denied"] } }));
    expect(answerOf(said, true, {}, "")).toEqual({ response: "approved" });
  });

  it("with any other form cannot be denied", () => {
    expect(canDeny(decisionOf(form({ amount: { type: "integer" } })))).toBe(false);
  });
});
