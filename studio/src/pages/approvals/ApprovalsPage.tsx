import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Stamp } from "lucide-react";
import { useCallback, useEffect, useRef } from "react";
import { useTopic } from "../../api/live";
import { meQuery } from "../../api/queries";
import { EmptyState } from "../../components/EmptyState";
import { Glyph } from "../../components/Glyph";
import { Kbd, modifier } from "../../components/Kbd";
import { Skeleton } from "../../components/Skeleton";
import { Ago } from "../../components/Time";
import { usePageTitle } from "../../components/usePageTitle";
import { isTyping, singleKeys } from "../../shell/shortcuts";
import { ApprovalDetail } from "./ApprovalDetail";
import {
  type Approval,
  approvalId,
  approvalsQuery,
  decidedId,
  decidedQuery,
  titleOf,
  type Whose,
} from "./approvals";
import { DecidedDetail, DecidedList } from "./Decided";
import { DueWords } from "./Due";

const WHOSE: [Whose, string][] = [
  ["me", "Me"],
  ["team", "My team"],
  ["all", "All"],
];
const LATELY = 5;

/** What waits for people, and the form to decide it. */
export function ApprovalsPage() {
  const search = useSearch({ strict: false }) as Record<string, string | undefined>;
  const navigate = useNavigate();
  const queries = useQueryClient();
  const me = useQuery(meQuery).data;
  const whose: Whose = WHOSE.find(([each]) => each === search.for)?.[0] ?? (me?.local ? "all" : "me");
  const list = useQuery(approvalsQuery(whose, me));
  const received = useCallback(() => void queries.invalidateQueries({ queryKey: ["approvals"] }), [queries]);
  useTopic("runs", received);
  usePageTitle("Approvals");
  const open = list.data ?? [];
  const past = useInfiniteQuery(decidedQuery);
  const decided = past.data?.pages.flatMap((page) => page.approvals) ?? [];
  const done = search.show === "done";
  // The address names an open approval, or a decided one with its time.
  const wanted = search.open ?? "";
  const chosen = open.find((each) => approvalId(each) === wanted);
  const gone = chosen ? undefined : decided.find((each) => `${decidedId(each)} `.startsWith(`${wanted} `));
  // A refetch must not take the form away from an approval that is still open.
  const closing = wanted !== "" && !chosen && !gone && (list.isFetching || past.isFetching);
  const closed = gone ?? (done ? decided[0] : undefined);
  // Nobody chose one: the first stays, with what is typed into it, when newer ones come above it.
  const held = useRef("");
  const first = open.find((each) => approvalId(each) === held.current) ?? open[0];
  const shown = closed || closing ? undefined : (chosen ?? first);
  useEffect(() => {
    held.current = shown ? approvalId(shown) : "";
  }, [shown]);
  const go = useCallback(
    (change: Record<string, string | undefined>) =>
      void navigate({ to: "/approvals", search: { ...search, ...change } as never, replace: true }),
    [navigate, search],
  );
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (!singleKeys() || isTyping(event.target) || event.metaKey || event.ctrlKey) return;
      if (document.querySelector("dialog[open]")) return;
      const by = event.key === "j" ? 1 : event.key === "k" ? -1 : 0;
      if (!by) return;
      const ids = done ? decided.map(decidedId) : open.map(approvalId);
      const at = ids.indexOf(done ? (closed ? decidedId(closed) : "") : shown ? approvalId(shown) : "");
      const next = ids[Math.min(Math.max(at + by, 0), ids.length - 1)];
      if (next) go({ open: next });
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  });
  if (list.error && !list.data) throw list.error;
  return (
    <main className="main" id="main">
      <div className="pagehead">
        <h1>Approvals</h1>
        <div className="seg" role="group" aria-label="Show">
          <button type="button" aria-pressed={!done} onClick={() => go({ show: undefined, open: undefined })}>
            Pending <span className="t3">{open.length}</span>
          </button>
          <button type="button" aria-pressed={done} onClick={() => go({ show: "done", open: undefined })}>
            Done
          </button>
        </div>
        <span className="grow" />
        {!done && (
          <div className="seg" role="group" aria-label="For">
            {WHOSE.filter(([each]) => each !== "team" || (me?.roles.length ?? 0) > 0).map(([each, label]) => (
              <button
                key={each}
                type="button"
                aria-pressed={each === whose}
                onClick={() => go({ for: each, open: undefined })}
              >
                {label}
              </button>
            ))}
          </div>
        )}
      </div>
      {list.isPending && <Skeleton rows={4} />}
      {list.data && past.data && (done || !open.length) && !decided.length ? (
        <EmptyState
          icon={<Stamp className="i l" aria-hidden="true" />}
          title={done ? "No decisions yet" : "Nothing waits for you"}
          action={<pre className="code">{'answer = await ctx.approval(Refund, title="Refund?")'}</pre>}
        >
          {done
            ? "Decisions are listed here until their run is removed."
            : whose === "all"
              ? "A workflow asks for an approval with one line. It appears here and can also be answered through a link."
              : "Approvals assigned to others are under All. A workflow asks for one with one line:"}
        </EmptyState>
      ) : (
        list.data && (
          <div className="ap">
            <div className="aplist">
              {!done && (
                <ul aria-label="Pending approvals">
                  {open.map((each) => (
                    <li key={approvalId(each)}>
                      <Item
                        approval={each}
                        chosen={each === shown}
                        mine={me !== undefined && each.assignees.includes(me.name)}
                        choose={() => go({ open: approvalId(each), show: undefined })}
                      />
                    </li>
                  ))}
                </ul>
              )}
              {!done && !open.length && <p className="note2 t2">Nothing waits for you.</p>}
              {!done && decided.length > 0 && <h2 className="ph">Recently decided</h2>}
              <DecidedList
                label={done ? "Decided approvals" : "Recently decided"}
                decided={done ? decided : decided.slice(0, LATELY)}
                chosen={closed}
                choose={(each) => go({ open: decidedId(each) })}
              />
              {done && past.hasNextPage && (
                <button
                  type="button"
                  className="btn sm apmore"
                  disabled={past.isFetchingNextPage}
                  onClick={() => void past.fetchNextPage()}
                >
                  Show older
                </button>
              )}
              {!done && (
                <p className="aphint xs t3 hide-s">
                  <Kbd keys={["J", "K"]} /> move <Kbd keys={[modifier, "⏎"]} /> approve{" "}
                  <Kbd keys={["⇧", modifier, "⏎"]} /> deny
                </p>
              )}
            </div>
            <div className="apdetail scroll">
              {closed && <DecidedDetail key={decidedId(closed)} decided={closed} />}
              {shown && <ApprovalDetail key={approvalId(shown)} approval={shown} me={me} />}
            </div>
          </div>
        )
      )}
    </main>
  );
}

function Item(props: { approval: Approval; chosen: boolean; mine: boolean; choose: () => void }) {
  const { approval } = props;
  return (
    <button
      type="button"
      className={props.chosen ? "apitem sel" : "apitem"}
      aria-current={props.chosen ? "true" : undefined}
      onClick={props.choose}
    >
      <Glyph status="suspended" />
      <span className="grow">
        <span className="med clip">{titleOf(approval)}</span>
        <span className="xs t3 clip">
          <code>{approval.workflow}</code> · <Ago at={Date.parse(approval.opened_at)} />
          {props.mine && " · yours"}
        </span>
      </span>
      <span className="xs t2 nowrap num">
        {approval.required > 1 && <span>needs {approval.required}</span>}
        <span className="t3">
          <DueWords at={approval.due_at} />
        </span>
      </span>
    </button>
  );
}
