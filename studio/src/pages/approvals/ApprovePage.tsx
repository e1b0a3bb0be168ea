import { CircleSlash, Clock, ShieldCheck } from "lucide-react";
import { useEffect, useState } from "react";
import { type ApiProblem, api, ask, type Schemas } from "../../api/client";
import { DecisionForm } from "../../components/DecisionForm";
import { Glyph } from "../../components/Glyph";
import { Ago } from "../../components/Time";
import { instant } from "../../domain/time";
import { Brand } from "../../shell/Shell";

type Approval = Schemas["ApprovalView"];

/** One approval for the holder of its link, without a key. Opening it changes nothing. */
export function ApprovePage() {
  const link = window.location.hash.slice(1);
  const [approval, setApproval] = useState<Approval | null>(null);
  const [problem, setProblem] = useState<ApiProblem | null>(null);
  const [decided, setDecided] = useState(false);
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState<ApiProblem | null>(null);
  useEffect(() => {
    document.title = "Approval";
    ask(api.GET("/api/v1/approval", { headers: { Authorization: `Bearer ${link}` } }))
      .then(setApproval)
      .catch((error: ApiProblem) => setProblem(error));
  }, [link]);
  const decide = async (answer: unknown) => {
    setBusy(true);
    setRefused(null);
    try {
      await ask(
        api.POST("/api/v1/approval", {
          headers: { Authorization: `Bearer ${link}` },
          body: { answer } as never,
        }),
      );
      setDecided(true);
    } catch (error) {
      const told = error as ApiProblem;
      if (told.code === "ALREADY_DECIDED" || told.status === 401 || told.status === 410) setProblem(told);
      else setRefused(told);
    } finally {
      setBusy(false);
    }
  };
  return (
    <main className="pub" id="main">
      <div className="pubcard">
        <span className="brand">
          <Brand />
          stepwell
        </span>
        {problem ? (
          <Closed problem={problem} />
        ) : decided ? (
          <div className="decided" role="status">
            <Glyph status="completed" size={32} />
            <h1>Your answer is recorded</h1>
            <p className="t2">The run goes on. This link is used up; you can close the page.</p>
          </div>
        ) : approval ? (
          <>
            <h1>{approval.title}</h1>
            <table className="ctx">
              <tbody>
                <tr>
                  <th scope="row">Workflow</th>
                  <td>
                    <code>{approval.workflow}</code>
                  </td>
                </tr>
                {instant(approval.due_at) !== null && (
                  <tr>
                    <th scope="row">Due</th>
                    <td>
                      <Ago at={instant(approval.due_at) ?? 0} />
                    </td>
                  </tr>
                )}
              </tbody>
            </table>
            {approval.required > 1 && (
              <Votes required={approval.required} approvedBy={approval.approved_by} />
            )}
            <DecisionForm
              form={approval.form}
              busy={busy}
              problem={refused?.message ?? ""}
              field={refused?.field ?? ""}
              decide={(answer) => void decide(answer)}
            />
            <p className="pubfoot xs t3">
              <ShieldCheck className="i s" aria-hidden="true" />
              You decide as <b>{approval.assignee}</b>. The link works once; opening it changed nothing.
            </p>
          </>
        ) : (
          <p className="t3">Loading…</p>
        )}
      </div>
    </main>
  );
}

export function Votes({ required, approvedBy }: { required: number; approvedBy: string[] }) {
  const missing = Math.max(required - approvedBy.length, 0);
  return (
    <div className="votes">
      {approvedBy.map((who) => (
        <span className="vote on" key={who}>
          <Glyph status="completed" size={14} />
          {who}
        </span>
      ))}
      {missing > 0 && (
        <span className="vote">
          <Glyph status="pending" size={14} />
          {missing} more
        </span>
      )}
    </div>
  );
}

function Closed({ problem }: { problem: ApiProblem }) {
  const late = problem.code === "ALREADY_DECIDED";
  return (
    <div className="decided" role="status">
      {late ? (
        <Clock className="i l" aria-hidden="true" />
      ) : (
        <CircleSlash className="i l" aria-hidden="true" />
      )}
      <h1>{late ? "Already decided" : "This link no longer works"}</h1>
      <p className="t2">
        {late
          ? "Somebody decided this, or it was withdrawn. Your answer was not needed and was not sent."
          : "It was used, revoked, or has expired. Ask the one who sent it for another."}
      </p>
    </div>
  );
}
