import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { stateQuery } from "../../api/queries";
import { JsonView } from "../../components/JsonView";
import { differences } from "../../domain/differences";
import { placeName } from "../../domain/path";
import { brief } from "../../domain/where";
import type { RunAt } from "./RunPage";

/** The state at the cursor, and what the last checkpoint changed in it. */
export function StateView({ at }: { at: RunAt }) {
  const before =
    at.model.checkpoints.findLast(
      (seq) => seq < (at.model.checkpoints.findLast((each) => each <= at.seq) ?? 0),
    ) ?? 0;
  const now = useQuery({ ...stateQuery(at.run.id, at.seq), placeholderData: keepPreviousData });
  const then = useQuery({ ...stateQuery(at.run.id, before), placeholderData: keepPreviousData });
  if (!now.data) return <div className="scroll" aria-busy="true" />;
  const machine = at.run.kind === "machine";
  const value = machine ? now.data.state : now.data.outputs;
  const old = before ? (machine ? then.data?.state : then.data?.outputs) : {};
  const point = at.model.checkpoints.findLast((seq) => seq <= at.seq);
  const writer = at.model.rows.find((row) => row.result === point);
  const changes = differences(old ?? {}, value ?? {});
  return (
    <div className="scroll stategrid">
      <section aria-label="State">
        <h2 className="h3">
          {machine ? (
            <>
              State at <code>{now.data.place || "start"}</code>
            </>
          ) : (
            "Results of the steps"
          )}
          , seq {at.seq}
        </h2>
        <JsonView value={value ?? null} name={`state-${at.seq}`} />
      </section>
      <section aria-label="Changes">
        <h2 className="h3">{before ? `Changed since seq ${before}` : "Changed since the start"}</h2>
        {changes.length ? (
          <ul className="changes">
            {changes.slice(0, 200).map((change) => (
              <li key={change.path} className={`ch-${change.kind}`}>
                <code>{machine ? change.path : placeName(change.path)}</code>
                {change.kind !== "added" && <del>{brief(change.old, 160)}</del>}
                {change.kind !== "removed" && <ins>{brief(change.value, 160)}</ins>}
                {writer && <span className="t3 xs">by {writer.name}</span>}
              </li>
            ))}
          </ul>
        ) : (
          <p className="t3">No changes.</p>
        )}
      </section>
    </div>
  );
}
