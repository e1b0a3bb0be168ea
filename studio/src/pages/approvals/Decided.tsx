import { useQueries, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ArrowUpRight } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { Glyph } from "../../components/Glyph";
import { Ago } from "../../components/Time";
import { type Approval, approvalId, type Decision, decisionsQuery, titleOf } from "./approvals";

/** An approval that was open while this page was, and is no longer. */
export interface Decided {
  approval: Approval;
  decision: Decision | null; // null: withdrawn, timed out, or not read yet
}

const KEPT = 20;

/** What was decided since the page was opened, here or elsewhere; the last one first. */
export function useDecided(open: Approval[] | undefined): Decided[] {
  const [gone, setGone] = useState<Approval[]>([]);
  const before = useRef<Approval[]>([]);
  const queries = useQueryClient();
  useEffect(() => {
    if (!open) return;
    const left = before.current.filter((each) => !open.some((now) => approvalId(now) === approvalId(each)));
    before.current = open;
    if (!left.length) return;
    for (const each of left) void queries.invalidateQueries({ queryKey: decisionsQuery(each.run).queryKey });
    setGone((known) =>
      [...left, ...known.filter((each) => !left.some((new_) => approvalId(new_) === approvalId(each)))].slice(
        0,
        KEPT,
      ),
    );
  }, [open, queries]);
  const decisions = useQueries({ queries: gone.map((each) => decisionsQuery(each.run)) });
  return gone.map((approval, index) => ({
    approval,
    decision: decisions[index]?.data?.decisions.findLast((each) => each.path === approval.path) ?? null,
  }));
}

export function DecidedList(props: {
  decided: Decided[];
  chosen: Decided | undefined;
  choose: (decided: Decided) => void;
}) {
  if (!props.decided.length) return null;
  return (
    <>
      <h2 className="ph">Decided lately</h2>
      <ul aria-label="Decided lately">
        {props.decided.map((each) => (
          <li key={approvalId(each.approval)}>
            <button
              type="button"
              className={each === props.chosen ? "apitem done sel" : "apitem done"}
              aria-current={each === props.chosen ? "true" : undefined}
              onClick={() => props.choose(each)}
            >
              <Glyph status={each.decision?.decision === "denied" ? "cancelled" : "completed"} />
              <span className="grow">
                <span className="clip t2">{titleOf(each.approval)}</span>
                <span className="xs t3">{wordsOf(each.decision)}</span>
              </span>
              <span className="xs t3 num">{each.decision && <Ago at={Date.parse(each.decision.at)} />}</span>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

export function wordsOf(decision: Decision | null): string {
  if (!decision) return "no longer open";
  return `${decision.by || "somebody"} ${decision.decision}`;
}

/** Already decided: by whom, when and why. */
export function DecidedDetail({ decided }: { decided: Decided }) {
  const { approval, decision } = decided;
  return (
    <article className="apin" aria-label={titleOf(approval)}>
      <div className="row">
        <span className={`pill st-${decision?.decision === "denied" ? "cancelled" : "completed"}`}>
          <Glyph status={decision?.decision === "denied" ? "cancelled" : "completed"} />
          {decision ? decision.decision : "closed"}
        </span>
        <span className="xs t3">
          <code>{approval.workflow}</code> at <code>{approval.name}</code>
        </span>
        <span className="grow" />
        <Link className="btn sm" to="/runs/$id" params={{ id: approval.run }}>
          <ArrowUpRight className="i" aria-hidden="true" />
          Run
        </Link>
      </div>
      <h2>{titleOf(approval)}</h2>
      <p className="t2" role="status">
        {decision ? (
          <>
            Decided: {wordsOf(decision)} this <Ago at={Date.parse(decision.at)} />
            {decision.reason && (
              <>
                : <q>{decision.reason}</q>
              </>
            )}
            .
          </>
        ) : (
          "It was withdrawn, timed out, or its run ended."
        )}
      </p>
    </article>
  );
}
