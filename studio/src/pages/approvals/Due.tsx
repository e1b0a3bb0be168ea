import { Timer } from "lucide-react";
import { Ago, useZoneName } from "../../components/Time";
import { absolute, instant } from "../../domain/time";

export function DueWords({ at }: { at: string | null | undefined }) {
  const due = instant(at);
  return due === null ? null : (
    <>
      due <Ago at={due} />
    </>
  );
}

/** When it is due, and what happens then. */
export function DueNote({ at, kind }: { at: string | null | undefined; kind: string | undefined }) {
  const zone = useZoneName();
  const due = instant(at);
  if (due === null) return null;
  return (
    <div className="note duenote">
      <Timer className="i s" aria-hidden="true" />
      <p>
        Due{" "}
        <b>
          <Ago at={due} />
        </b>
        , at {absolute(due, zone).slice(0, 16)}. Then: {consequence(kind)}
      </p>
    </div>
  );
}

function consequence(kind: string | undefined): string {
  if (kind === "graph") return "the run takes the timeout branch of the node, or fails if there is none.";
  if (kind === "machine")
    return "the machine takes its timeout transition, or the run fails if there is none.";
  return "the workflow receives a timeout, and fails unless it handles it.";
}
