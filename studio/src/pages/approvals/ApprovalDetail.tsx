import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ArrowUpRight, BellRing, Link2, UserRoundPen } from "lucide-react";
import { useCallback, useState } from "react";
import { ApiProblem, api, ask, type Schemas } from "../../api/client";
import { useTopic } from "../../api/live";
import { runQuery } from "../../api/queries";
import { DecisionForm } from "../../components/DecisionForm";
import { StatusPill } from "../../components/StatusBadge";
import { Ago } from "../../components/Time";
import { descriptionOf, words } from "../../domain/schema";
import { brief } from "../../domain/where";
import { useRunActions } from "../run/useRunActions";
import { version } from "../runs/RunRow";
import { type Approval, decisionsQuery, titleOf, waitsQuery } from "./approvals";
import { DueNote } from "./Due";
import { LinkDialog } from "./LinkDialog";
import { ReassignDialog } from "./ReassignDialog";
import { Votes } from "./Votes";

const FACTS_MAX = 12;

/** One open approval: what is asked, what is known, who voted, and the form. */
export function ApprovalDetail({ approval, me }: { approval: Approval; me: Schemas["MeView"] | undefined }) {
  const actions = useRunActions(approval.run);
  const run = useQuery(runQuery(approval.run)).data;
  const wait = useQuery(waitsQuery(approval.run)).data?.waits.find((each) => each.path === approval.path);
  const decisions = useQuery({ ...decisionsQuery(approval.run), enabled: approval.required > 1 }).data;
  const queries = useQueryClient();
  // A vote changes no list: the run says so itself.
  const received = useCallback(() => void queries.invalidateQueries({ queryKey: ["approvals"] }), [queries]);
  useTopic(`run:${approval.run}`, received);
  const [dialog, setDialog] = useState<"" | "reassign" | "link">("");
  const [reminded, setReminded] = useState("");
  const facts = factsOf(run?.input);
  const approvedBy = wait?.approved_by ?? [];
  const assignees = wait?.assignees ?? approval.assignees;
  const barred = approval.bar_starter && run !== undefined && me !== undefined && run.started_by === me.name;
  const description = descriptionOf(approval.form);
  const remind = async () => {
    try {
      await ask(
        api.POST("/api/v1/runs/{run_id}/remind", {
          params: { path: { run_id: approval.run } },
          body: { path: approval.path } as never,
        }),
      );
      setReminded("Reminder recorded in the log of the run.");
    } catch (error) {
      setReminded(error instanceof ApiProblem ? error.message : String(error));
    }
  };
  return (
    <article className="apin" aria-label={titleOf(approval)}>
      <div className="row wrap">
        <StatusPill
          status="suspended"
          word={approval.required > 1 ? `${approvedBy.length} of ${approval.required} approved` : "Waiting"}
        />
        <span className="xs t3">
          <code>{approval.workflow}</code> {run && version(run.version)} at <code>{approval.name}</code>
        </span>
        <span className="grow" />
        <Link className="btn sm" to="/runs/$id" params={{ id: approval.run }}>
          <ArrowUpRight className="i" aria-hidden="true" />
          Run
        </Link>
        <button type="button" className="btn sm" onClick={() => setDialog("link")}>
          <Link2 className="i" aria-hidden="true" />
          Link…
        </button>
      </div>
      <h2>{titleOf(approval)}</h2>
      {description && <p className="t2 lead">{description}</p>}
      {facts.length > 0 && (
        <table className="ctx">
          <tbody>
            {facts.slice(0, FACTS_MAX).map(([name, value]) => (
              <tr key={name}>
                <th scope="row">{words(name)}</th>
                <td>{brief(value, 200)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <Votes
        required={approval.required}
        approvedBy={approvedBy}
        assignees={assignees}
        {...(decisions
          ? { decisions: decisions.decisions.filter((each) => each.path === approval.path) }
          : {})}
      />
      {barred && (
        <p className="note t2" role="status">
          You started this run, so somebody else must decide.
        </p>
      )}
      <DecisionForm
        form={approval.form}
        busy={actions.busy || barred}
        problem={actions.problem}
        field={actions.field}
        decide={(answer, reason) => void actions.decide(approval.path, answer, reason)}
      />
      <DueNote at={approval.due_at} kind={run?.kind} />
      <div className="row wrap xs t3">
        <button type="button" className="btn sm" onClick={() => setDialog("reassign")}>
          <UserRoundPen className="i" aria-hidden="true" />
          Reassign…
        </button>
        <button type="button" className="btn sm" onClick={() => void remind()}>
          <BellRing className="i" aria-hidden="true" />
          Remind
        </button>
        <span role="status">
          {reminded ||
            (wait?.reminded_at && (
              <>
                reminded <Ago at={Date.parse(wait.reminded_at)} />
              </>
            ))}
        </span>
      </div>
      {dialog === "reassign" && (
        <ReassignDialog approval={approval} assignees={assignees} close={() => setDialog("")} />
      )}
      {dialog === "link" && (
        <LinkDialog approval={approval} assignees={assignees} close={() => setDialog("")} />
      )}
    </article>
  );
}

/** What the run was started with, as rows. */
function factsOf(input: unknown): [string, unknown][] {
  if (input === null || input === undefined) return [];
  if (typeof input === "object" && !Array.isArray(input)) return Object.entries(input);
  return [["input", input]];
}
