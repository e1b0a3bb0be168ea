import { useId, useState } from "react";
import { answerOf, decisionOf } from "../domain/decision";
import { Kbd, modifier } from "./Kbd";
import { SchemaForm } from "./SchemaForm";

/** The form of an approval: its fields, and the buttons Approve and Deny. */
export function DecisionForm(props: {
  form: unknown;
  busy: boolean;
  problem: string;
  field: string;
  then?: string;
  decide: (answer: unknown) => void;
}) {
  const decision = decisionOf(props.form);
  const [comment, setComment] = useState("");
  const id = useId();
  return (
    <SchemaForm
      schema={decision.schema}
      problem={props.problem ? { field: props.field, message: props.problem } : null}
      submit={(value, button) => props.decide(answerOf(decision, button !== "deny", value, comment))}
    >
      {decision.comment && (
        <div className="field">
          <label htmlFor={id}>
            Comment <span className="t3">kept in the log</span>
          </label>
          <textarea
            id={id}
            className="input"
            rows={2}
            value={comment}
            onChange={(event) => setComment(event.target.value)}
          />
        </div>
      )}
      <div className="row apbtns">
        <button type="submit" className="btn primary" disabled={props.busy} value="approve">
          Approve <Kbd keys={[modifier, "⏎"]} />
        </button>
        {decision.kind !== "form" && (
          <button type="submit" className="btn danger-quiet" disabled={props.busy} value="deny">
            Deny
          </button>
        )}
        <span className="grow" />
        {props.then && <span className="t3 xs">{props.then}</span>}
      </div>
    </SchemaForm>
  );
}
