import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ArrowUpRight } from "lucide-react";
import { Glyph } from "../../components/Glyph";
import { JsonView } from "../../components/JsonView";
import { Ago } from "../../components/Time";
import { words } from "../../domain/schema";
import type { RunStatus } from "../../domain/status";
import { brief } from "../../domain/where";
import { type Decided, decidedId, decisionsQuery, titleOf } from "./approvals";

export function DecidedList(props: {
  label: string;
  decided: Decided[];
  chosen: Decided | undefined;
  choose: (decided: Decided) => void;
}) {
  return (
    <ul aria-label={props.label}>
      {props.decided.map((each) => (
        <li key={decidedId(each)}>
          <button
            type="button"
            className={each === props.chosen ? "apitem done sel" : "apitem done"}
            aria-current={each === props.chosen ? "true" : undefined}
            onClick={() => props.choose(each)}
          >
            <Glyph status={statusOf(each)} />
            <span className="grow">
              <span className="clip t2">{titleOf(each)}</span>
              <span className="xs t3 clip">
                {wordsOf(each)}
                {each.reason && <> · “{each.reason}”</>}
              </span>
            </span>
            <span className="xs t3 num nowrap">
              <Ago at={Date.parse(each.decided_at)} />
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}

function statusOf(decided: Decided): RunStatus {
  if (decided.decision === "timed_out") return "timed_out";
  return decided.decision === "denied" ? "cancelled" : "completed";
}

function wordsOf(decided: Decided): string {
  if (decided.decision === "timed_out") return "nobody decided in time";
  if (!decided.decision) return "decided, but this server cannot read the answer";
  return `${decided.by || "somebody"} ${decided.decision}`;
}

/** Decided: by whom, when, why, and with what answer. */
export function DecidedDetail({ decided }: { decided: Decided }) {
  const votes = useQuery(decisionsQuery(decided.run)).data?.decisions ?? [];
  const others = votes.filter(
    (each) =>
      each.path === decided.path &&
      each.by !== decided.by &&
      each.at >= decided.opened_at &&
      each.at <= decided.decided_at,
  );
  const answer = decided.answer;
  const fields = answer && typeof answer === "object" && !Array.isArray(answer) ? Object.entries(answer) : [];
  return (
    <article className="apin" aria-label={titleOf(decided)}>
      <div className="row">
        <span className={`pill st-${statusOf(decided)}`}>
          <Glyph status={statusOf(decided)} />
          {decided.decision ? words(decided.decision) : "Closed"}
        </span>
        <span className="xs t3">
          <code>{decided.workflow}</code> at <code>{decided.name}</code>
        </span>
        <span className="grow" />
        <Link className="btn sm" to="/runs/$id" params={{ id: decided.run }}>
          <ArrowUpRight className="i" aria-hidden="true" />
          Run
        </Link>
      </div>
      <h2>{titleOf(decided)}</h2>
      <p className="t2" role="status">
        {decided.decision === "timed_out" ? (
          <>
            Nobody decided in time. It timed out <Ago at={Date.parse(decided.decided_at)} />.
          </>
        ) : (
          <>
            Decided: {wordsOf(decided)} this <Ago at={Date.parse(decided.decided_at)} />
            {decided.reason && (
              <>
                : <q>{decided.reason}</q>
              </>
            )}
            .
          </>
        )}
      </p>
      {others.length > 0 && (
        <div className="votes">
          {others.map((each) => (
            <span className="vote on" key={`${each.by} ${each.at}`}>
              <Glyph status="completed" size={14} />
              {each.by} {each.decision} <Ago at={Date.parse(each.at)} />
              {each.reason && <q>{each.reason}</q>}
            </span>
          ))}
        </div>
      )}
      {fields.length > 0 ? (
        <table className="ctx">
          <tbody>
            {fields.map(([name, value]) => (
              <tr key={name}>
                <th scope="row">{words(name)}</th>
                <td>{brief(value, 200)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        Array.isArray(answer) && <JsonView value={answer} name="answer" />
      )}
    </article>
  );
}
