import { useId, useState } from "react";
import { answerOf, canDeny, decisionOf } from "../domain/decision";
import { Kbd, modifier } from "./Kbd";
import { SchemaForm } from "./SchemaForm";

/** The form of an approval: its fields, and the buttons Approve and Deny. */
export function DecisionForm(props: {
  form: unknown;
  busy: boolean;
  problem: string;
  field: string;
  then?: string;
  large?: boolean; // for a page of its own
  decide: (answer: unknown, reason: string) => void;
}) {
  const decision = decisionOf(props.form);
  const size = props.large ? " lg" : "";
  const [comment, setComment] = useState("");
  const id = useId();
  return (
    <SchemaForm
      schema={decision.schema}
      problem={props.problem ? { field: props.field, message: props.problem } : null}
      submit={(value, button) =>
        props.decide(answerOf(decision, button !== "deny", value, comment), decision.comment ? "" : comment)
      }
    >
      <div className="field">
        <label htmlFor={id}>
          Reason <span className="t3">optional, recorded in the log</span>
        </label>
        <input
          id={id}
          className="input"
          autoComplete="off"
          placeholder="What did you check?"
          value={comment}
          onChange={(event) => setComment(event.target.value)}
        />
      </div>
      <div className="row apbtns wrap">
        <button type="submit" className={`btn primary${size}`} disabled={props.busy} value="approve">
          Approve {!props.large && <Kbd keys={[modifier, "⏎"]} />}
        </button>
        {canDeny(decision) ? (
          <button type="submit" className={`btn danger-quiet${size}`} disabled={props.busy} value="deny">
            Deny
          </button>
        ) : (
          <span className="t3 xs">This approval has no Deny option.</span>
        )}
        <span className="grow" />
        {props.then && <span className="t3 xs">{props.then}</span>}
      </div>
    </SchemaForm>
  );
}
