import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ArrowUpRight, Stamp, Timer } from "lucide-react";
import { useCallback, useEffect, useState } from "react";
import { useTopic } from "../../api/live";
import { runQuery } from "../../api/queries";
import { CopyButton } from "../../components/CopyButton";
import { DecisionForm } from "../../components/DecisionForm";
import { EmptyState } from "../../components/EmptyState";
import { Glyph } from "../../components/Glyph";
import { Kbd, modifier } from "../../components/Kbd";
import { StatusPill } from "../../components/StatusBadge";
import { Ago } from "../../components/Time";
import { words } from "../../domain/schema";
import { instant } from "../../domain/time";
import { brief } from "../../domain/where";
import { isTyping } from "../../shell/shortcuts";
import { useRunActions } from "../run/useRunActions";
import { version } from "../runs/RunRow";
import { Votes } from "./ApprovePage";
import { type Approval, approvalId, approvalsQuery, waitsQuery } from "./approvals";

/** What waits for people, and the form to decide it. */
export function ApprovalsPage() {
  const search = useSearch({ strict: false }) as Record<string, string | undefined>;
  const navigate = useNavigate();
  const queries = useQueryClient();
  const list = useQuery(approvalsQuery);
  const [decided, setDecided] = useState<Approval[]>([]);
  const received = useCallback(() => void queries.invalidateQueries({ queryKey: ["approvals"] }), [queries]);
  useTopic("runs", received);
  useEffect(() => {
    document.title = "Approvals · Stepwell Studio";
  }, []);
  const open = (list.data ?? []).filter(
    (each) => !decided.some((done) => approvalId(done) === approvalId(each)),
  );
  const chosen = open.find((each) => approvalId(each) === search.open) ?? open[0];
  const choose = useCallback(
    (approval: Approval | undefined) =>
      void navigate({
        to: "/approvals",
        search: (approval ? { open: approvalId(approval) } : {}) as never,
        replace: true,
      }),
    [navigate],
  );
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (isTyping(event.target) || event.metaKey || event.ctrlKey) return;
      const by = event.key === "j" ? 1 : event.key === "k" ? -1 : 0;
      if (by && chosen) choose(open[Math.min(Math.max(open.indexOf(chosen) + by, 0), open.length - 1)]);
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  });
  if (list.error && !list.data) throw list.error;
  return (
    <main className="main" id="main">
      <div className="pagehead">
        <h1>Approvals</h1>
        <span className="tag">{open.length} pending</span>
      </div>
      {list.data && !open.length && !decided.length ? (
        <EmptyState icon={<Stamp className="i l" aria-hidden="true" />} title="Nothing waits for you">
          A workflow asks with <code>await ctx.approval(Form, title="…")</code>, a graph with an approval
          node.
        </EmptyState>
      ) : (
        <div className="ap">
          <div className="aplist">
            <ul aria-label="Pending approvals">
              {open.map((each) => (
                <li key={approvalId(each)}>
                  <button
                    type="button"
                    className={each === chosen ? "apitem sel" : "apitem"}
                    aria-current={each === chosen ? "true" : undefined}
                    onClick={() => choose(each)}
                  >
                    <Glyph status="suspended" />
                    <span className="grow">
                      <span className="med">{titleOf(each)}</span>
                      <span className="xs t3">
                        <code>{each.workflow}</code> · <Ago at={Date.parse(each.opened_at)} />
                      </span>
                    </span>
                    <span className="xs t3 nowrap">
                      <Due at={each.due_at} />
                    </span>
                  </button>
                </li>
              ))}
            </ul>
            {decided.length > 0 && (
              <>
                <h2 className="ph">Decided lately</h2>
                <ul aria-label="Decided lately">
                  {decided.map((each) => (
                    <li key={approvalId(each)}>
                      <Link className="apitem done" to="/runs/$id" params={{ id: each.run }}>
                        <Glyph status="completed" />
                        <span className="grow t2">{titleOf(each)}</span>
                      </Link>
                    </li>
                  ))}
                </ul>
              </>
            )}
            <p className="aphint xs t3">
              <Kbd keys={["J", "K"]} /> move <Kbd keys={[modifier, "⏎"]} /> approve
            </p>
          </div>
          <div className="apdetail scroll">
            {chosen && (
              <Detail
                key={approvalId(chosen)}
                approval={chosen}
                done={() => {
                  setDecided((before) => [chosen, ...before].slice(0, 10));
                  choose(undefined);
                  void queries.invalidateQueries({ queryKey: ["approvals"] });
                }}
              />
            )}
          </div>
        </div>
      )}
    </main>
  );
}

function titleOf(approval: Approval): string {
  return approval.title || words(approval.name || "approval");
}

function Due({ at }: { at: string | null | undefined }) {
  const due = instant(at);
  return due === null ? null : (
    <>
      due <Ago at={due} />
    </>
  );
}

function Detail({ approval, done }: { approval: Approval; done: () => void }) {
  const actions = useRunActions(approval.run);
  const run = useQuery(runQuery(approval.run)).data;
  const wait = useQuery(waitsQuery(approval.run)).data?.waits.find((each) => each.path === approval.path);
  const facts = factsOf(run?.input);
  const link = `${document.baseURI.replace(/\/$/, "")}/runs/${approval.run}`;
  return (
    <article className="apin" aria-label={titleOf(approval)}>
      <div className="row">
        <StatusPill status="suspended" word="Waiting for a decision" />
        <span className="xs t3">
          <code>{approval.workflow}</code> {run && version(run.version)} at <code>{approval.name}</code>
        </span>
        <span className="grow" />
        <Link className="btn sm" to="/runs/$id" params={{ id: approval.run }}>
          <ArrowUpRight className="i" aria-hidden="true" />
          Run
        </Link>
        <CopyButton text={link} label="Copy link" />
      </div>
      <h2>{titleOf(approval)}</h2>
      {facts.length > 0 && (
        <table className="ctx">
          <tbody>
            {facts.slice(0, 12).map(([name, value]) => (
              <tr key={name}>
                <th scope="row">{words(name)}</th>
                <td>{brief(value, 200)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {approval.assignees.length > 0 && (
        <div className="votes">
          {approval.assignees.map((who) => (
            <span className="vote" key={who}>
              <Glyph status="pending" size={14} />
              {who}
            </span>
          ))}
        </div>
      )}
      {(wait?.required ?? 1) > 1 && (
        <Votes required={wait?.required ?? 1} approvedBy={wait?.approved_by ?? []} />
      )}
      <DecisionForm
        form={approval.form}
        busy={actions.busy}
        problem={actions.problem}
        field={actions.field}
        decide={async (answer) => {
          if (await actions.decide(approval.path, answer)) done();
        }}
      />
      {approval.due_at && (
        <div className="note">
          <Timer className="i s" aria-hidden="true" />
          <span>
            <Due at={approval.due_at} />. After that the run goes on without an answer, as its workflow says.
          </span>
        </div>
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
