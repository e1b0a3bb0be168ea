import { type StepStatus, statusWord } from "../domain/status";
import { Glyph } from "./Glyph";

/** Icon and word in a row of a list. */
export function StatusWord({ status, word }: { status: StepStatus; word?: string }) {
  return (
    <span className={`status st-${status}`}>
      <Glyph status={status} />
      {word ?? statusWord(status)}
    </span>
  );
}

/** Icon and word on the tint of the status. */
export function StatusPill({ status, word }: { status: StepStatus; word?: string }) {
  return (
    <span className={`pill st-${status}`}>
      <Glyph status={status} />
      {word ?? statusWord(status)}
    </span>
  );
}
