import { Glyph } from "../../components/Glyph";
import { Ago } from "../../components/Time";
import type { Decision } from "./approvals";

/** Who approved, and who is still missing: solid given, dashed missing. */
export function Votes(props: {
  required: number;
  approvedBy: string[];
  decisions?: Decision[];
  assignees?: string[];
  yours?: boolean;
}) {
  const missing = Math.max(props.required - props.approvedBy.length, 0);
  const from = (props.assignees ?? []).filter((who) => !props.approvedBy.includes(who)).map(plain);
  if (!props.approvedBy.length && props.required === 1 && !from.length) return null;
  return (
    <div className="votes">
      {props.approvedBy.map((who) => {
        const given = props.decisions?.find((each) => each.by === who);
        return (
          <span className="vote on" key={who}>
            <Glyph status="completed" size={14} />
            {who}
            {given && (
              <span>
                {" "}
                <Ago at={Date.parse(given.at)} />
              </span>
            )}
            {given?.reason && <q>{given.reason}</q>}
          </span>
        );
      })}
      {missing > 0 && (
        <span className="vote">
          <Glyph status="pending" size={14} />
          {props.yours && props.required > 1 ? (
            `your vote is ${props.approvedBy.length + 1} of ${props.required}`
          ) : (
            <span>
              {missing === 1 ? (props.required > 1 ? "one more" : "one") : `${missing} more`}
              {from.length > 0 && (
                <>
                  {" from "}
                  <b>{from.join(", ")}</b>
                </>
              )}
            </span>
          )}
        </span>
      )}
    </div>
  );
}

/** "role:finance" is a role of that name. */
function plain(assignee: string): string {
  return assignee.replace(/^role:/, "");
}
