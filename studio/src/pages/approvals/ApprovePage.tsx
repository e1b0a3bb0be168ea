import { CircleSlash, ShieldCheck, Timer } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import { type ApiProblem, api, ask, type Schemas } from "../../api/client";
import { DecisionForm } from "../../components/DecisionForm";
import { Glyph } from "../../components/Glyph";
import { useZoneName } from "../../components/Time";
import { descriptionOf } from "../../domain/schema";
import { absolute, clock, instant } from "../../domain/time";
import { PublicFrame } from "../../shell/PublicFrame";
import { Votes } from "./Votes";

type Approval = Schemas["ApprovalView"];

/** One approval for the holder of its link, without a key. Opening it changes nothing. */
export function ApprovePage() {
  const link = window.location.hash.slice(1);
  const [approval, setApproval] = useState<Approval | null>(null);
  const [problem, setProblem] = useState<ApiProblem | null>(null);
  const [decided, setDecided] = useState(false);
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState<ApiProblem | null>(null);
  const zone = useZoneName();
  useEffect(() => {
    document.title = "Approval";
    ask(api.GET("/api/v1/approval", { headers: { Authorization: `Bearer ${link}` } }))
      .then(setApproval)
      .catch((error: ApiProblem) => setProblem(error));
  }, [link]);
  const decide = async (answer: unknown, reason: string) => {
    setBusy(true);
    setRefused(null);
    try {
      await ask(
        api.POST("/api/v1/approval", {
          headers: { Authorization: `Bearer ${link}` },
          body: { answer, reason } as never,
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
  const asks = <span className="xs t3">{approval ? `${approval.workflow} asks you` : "stepwell"}</span>;
  if (problem) {
    return (
      <PublicFrame label={asks}>
        <Closed problem={problem} title={approval?.title ?? ""} />
      </PublicFrame>
    );
  }
  if (decided) {
    return (
      <PublicFrame label={asks}>
        <Outcome icon={<Glyph status="completed" size={32} />} title="Your answer is recorded">
          {approval?.title}
        </Outcome>
        <p className="pubfoot xs t3">
          <ShieldCheck className="i s" aria-hidden="true" />
          The run continues. This link cannot be used again; you can close this page.
        </p>
      </PublicFrame>
    );
  }
  if (!approval) {
    return (
      <PublicFrame label={asks}>
        <h1>Approval</h1>
        <p className="t3" role="status">
          Loading…
        </p>
      </PublicFrame>
    );
  }
  const due = instant(approval.due_at);
  const description = descriptionOf(approval.form);
  return (
    <PublicFrame
      label={asks}
      under={`Asked by the workflow ${approval.workflow}. Opening this page changed nothing.`}
    >
      <h1>{approval.title}</h1>
      {description && <p className="t2 lead">{description}</p>}
      {approval.required > 1 && (
        <Votes required={approval.required} approvedBy={approval.approved_by} yours />
      )}
      <DecisionForm
        large
        form={approval.form}
        busy={busy}
        problem={refused?.message ?? ""}
        field={refused?.field ?? ""}
        decide={(answer, reason) => void decide(answer, reason)}
      />
      <p className="pubfoot xs t3">
        <Timer className="i s" aria-hidden="true" />
        <span>
          {due !== null && `Answer by ${absolute(due, zone).slice(0, 16)}. `}
          You decide as <b>{approval.assignee}</b>. This link is yours and works once.
        </span>
      </p>
    </PublicFrame>
  );
}

function Outcome(props: { icon: ReactNode; title: string; children: ReactNode }) {
  return (
    <div className="decided" role="status">
      {props.icon}
      <h1>{props.title}</h1>
      {props.children && <p className="t2">{props.children}</p>}
    </div>
  );
}

/** Why the link no longer decides anything: never an error page. */
function Closed({ problem, title }: { problem: ApiProblem; title: string }) {
  const zone = useZoneName();
  const { decided_by: by, decided_at: at, decision } = problem.context;
  const when = at ? ` at ${clock(Date.parse(at), zone).slice(0, 5)}` : "";
  if (problem.code === "ALREADY_DECIDED") {
    return (
      <Outcome icon={<Glyph status="completed" size={32} />} title="Already decided">
        {title && (
          <>
            {title}
            <br />
          </>
        )}
        {by
          ? `${by} ${decision ?? "decided"} this${when}. Your answer was not needed and was not sent.`
          : "It was decided, withdrawn or timed out. Your answer was not needed and was not sent."}
      </Outcome>
    );
  }
  if (problem.code === "LINK_USED") {
    return (
      <Outcome icon={<Glyph status="completed" size={32} />} title="This link was already used">
        {by ? `${by} answered with it${when}. ` : ""}A link works once. There is nothing left to do.
      </Outcome>
    );
  }
  if (problem.code === "LINK_EXPIRED") {
    return (
      <Outcome icon={<Timer className="i l" aria-hidden="true" />} title="This link has expired">
        No decision was made with it. Ask the person who sent it for a new one.
      </Outcome>
    );
  }
  if (problem.status === 0) {
    return (
      <Outcome icon={<CircleSlash className="i l" aria-hidden="true" />} title="The server does not answer">
        Nothing was sent. Open the link again later; it stays valid.
      </Outcome>
    );
  }
  return (
    <Outcome icon={<CircleSlash className="i l" aria-hidden="true" />} title="This link does not work">
      It is incomplete, or comes from another server. Ask the person who sent it for a new one.
    </Outcome>
  );
}
