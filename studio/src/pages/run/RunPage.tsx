import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import {
  ArrowRightLeft,
  Braces,
  ChartGantt,
  FileText,
  History,
  List,
  ListTree,
  Route,
  SearchX,
  Workflow,
} from "lucide-react";
import { type ReactNode, useCallback, useEffect, useMemo, useState } from "react";
import { ApiProblem, type RunDetail } from "../../api/client";
import { runQuery, whyQuery } from "../../api/queries";
import { EmptyState } from "../../components/EmptyState";
import { Glyph } from "../../components/Glyph";
import { Kbd } from "../../components/Kbd";
import { LazyPart, type PartFile } from "../../components/LazyPart";
import { usePageTitle } from "../../components/usePageTitle";
import { type Row, type RunEvent, type RunModel, runStatusAt, statusAt } from "../../domain/run";
import { isEnded, type StepStatus } from "../../domain/status";
import { isTyping, singleKeys } from "../../shell/shortcuts";
import { neighbour } from "../runs/lastList";
import { DocumentsView } from "./DocumentsView";
import { EventsView } from "./EventsView";
import { InputOutputView } from "./InputOutputView";
import { Inspector } from "./Inspector";
import { Pane } from "./Pane";
import { RunHeader } from "./RunHeader";
import { Scrubber } from "./Scrubber";
import { StateView } from "./StateView";
import { StepsView } from "./StepsView";
import { useRunEvents } from "./useRunEvents";

const GRAPH: PartFile<{ at: RunAt }> = { load: () => import("./GraphView"), part: null };
const CHART: PartFile<{ at: RunAt }> = { load: () => import("./ChartView"), part: null };

/** What every pane of the page shows: one run at one seq. */
export interface RunAt {
  run: RunDetail;
  model: RunModel;
  events: RunEvent[];
  seq: number;
  live: boolean;
  now: number; // the time at the cursor
  selected: string; // path
  select: (path: string) => void;
  goTo: (seq: number) => void;
}

type ViewName = "graph" | "states" | "steps" | "events" | "state" | "documents" | "io";

const VIEWS: Record<string, { name: ViewName; label: string; icon: ReactNode }[]> = {
  graph: [
    { name: "graph", label: "Graph", icon: <Workflow className="i s" aria-hidden="true" /> },
    { name: "steps", label: "Timeline", icon: <ChartGantt className="i s" aria-hidden="true" /> },
  ],
  machine: [
    { name: "states", label: "States", icon: <Route className="i s" aria-hidden="true" /> },
    { name: "steps", label: "Timeline", icon: <ChartGantt className="i s" aria-hidden="true" /> },
  ],
  function: [{ name: "steps", label: "Steps", icon: <ListTree className="i s" aria-hidden="true" /> }],
};
const SHARED: { name: ViewName; label: string; icon: ReactNode }[] = [
  { name: "events", label: "Events", icon: <List className="i s" aria-hidden="true" /> },
  { name: "state", label: "State", icon: <Braces className="i s" aria-hidden="true" /> },
  { name: "documents", label: "Documents", icon: <FileText className="i s" aria-hidden="true" /> },
  { name: "io", label: "Input / output", icon: <ArrowRightLeft className="i s" aria-hidden="true" /> },
];

export function RunPage() {
  const { id = "" } = useParams({ strict: false });
  const run = useQuery(runQuery(id));
  if (
    run.error instanceof ApiProblem &&
    (run.error.status === 404 || run.error.status === 400 || run.error.status === 422)
  ) {
    return (
      <main className="main" id="main">
        <EmptyState
          whole
          icon={<SearchX className="i l" aria-hidden="true" />}
          title={`No run ${id.length > 12 ? `${id.slice(0, 12)}…` : id} here`}
        >
          It may be gone after its retention, or live in another database.{" "}
          <Link className="link" to="/runs">
            All runs
          </Link>
        </EmptyState>
      </main>
    );
  }
  if (run.error && !run.data) throw run.error;
  if (!run.data) return <main className="main" id="main" aria-busy="true" />;
  return <LoadedRun key={id} run={run.data} />;
}

function LoadedRun({ run }: { run: RunDetail }) {
  const search = useSearch({ strict: false }) as Record<string, string | undefined>;
  const navigate = useNavigate();
  const queries = useQueryClient();
  const { events, model } = useRunEvents(run.id);
  const chosen = Number(search.seq) || 0;
  const live = !chosen || chosen >= model.last;
  const seq = live ? model.last : chosen;
  const now = useRunClock(model, seq, live && !isEnded(run.status), events);

  const set = useCallback(
    (changes: Record<string, string>) =>
      void navigate({
        to: ".",
        search: ((before: Record<string, unknown>) => ({ ...before, ...changes })) as never,
        replace: true,
      }),
    [navigate],
  );
  const at: RunAt = {
    run,
    model,
    events,
    seq,
    live,
    now,
    selected: search.node ?? "",
    select: (path) => set({ node: path }),
    goTo: (to) => set({ seq: to >= model.last ? "" : String(Math.max(to, 1)) }),
  };

  // The row of the run follows its events.
  useEffect(() => {
    if (model.last) void queries.invalidateQueries({ queryKey: ["run", run.id] });
  }, [model.last, queries, run.id]);
  usePageTitle(run.key || run.workflow);

  const views = [...(VIEWS[run.kind] ?? VIEWS.function ?? []), ...SHARED];
  const view = views.find((each) => each.name === search.view)?.name ?? views[0]?.name ?? "events";
  useRunKeys(
    at,
    views,
    (name) => set({ view: name }),
    (id) => void navigate({ to: "/runs/$id", params: { id } }),
  );
  // Nothing moves while it is queued, so nothing would ask again why.
  const why = useQuery({
    ...whyQuery(run.id, model.last),
    enabled: !isEnded(run.status) && model.last > 0,
    refetchInterval: run.status === "pending" ? 3_000 : false,
  });
  return (
    <main className={live ? "main" : "main past"} id="main">
      {!live && <PastBar at={at} />}
      <RunHeader at={at} why={why.data?.text ?? ""} />
      <div className="tabsrow">
        <div className="tabs" role="tablist" aria-label="Views of the run">
          {views.map((each) => (
            <button
              type="button"
              className="tab"
              role="tab"
              key={each.name}
              aria-selected={each.name === view}
              tabIndex={each.name === view ? 0 : -1}
              onClick={() => set({ view: each.name })}
              onKeyDown={(event) => {
                const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
                const next = views[(views.indexOf(each) + by + views.length) % views.length];
                if (!by || !next) return;
                set({ view: next.name });
                (
                  event.currentTarget.parentElement?.children[views.indexOf(next)] as HTMLElement | undefined
                )?.focus();
              }}
            >
              {each.icon}
              {each.label}
              {each.name === "events" && <span className="n">{model.last}</span>}
            </button>
          ))}
        </div>
        <JumpChips at={at} />
      </div>
      <Pane key={view}>
        {view === "graph" && <LazyPart file={GRAPH} props={{ at }} />}
        {view === "states" && <LazyPart file={CHART} props={{ at }} />}
        {view === "steps" && (
          <div className="panes two">
            <StepsView at={at} />
            <Inspector at={at} />
          </div>
        )}
        {view === "events" && <EventsView at={at} />}
        {view === "state" && <StateView at={at} />}
        {view === "documents" && <DocumentsView at={at} />}
        {view === "io" && <InputOutputView at={at} />}
      </Pane>
      <Scrubber at={at} />
    </main>
  );
}

function PastBar({ at }: { at: RunAt }) {
  return (
    <div className="pastbar" role="status">
      <History className="i s" aria-hidden="true" />
      <span className="grow">
        Viewing the past, seq {at.seq} of {at.model.last}. Nothing here can change the run.
      </span>
      <button type="button" className="btn sm" onClick={() => at.goTo(at.model.last)}>
        Back to live <Kbd keys={["L"]} />
      </button>
    </div>
  );
}

const JUMPS: { status: StepStatus; word: string; key: string }[] = [
  { status: "failed", word: "failed", key: "F" },
  { status: "suspended", word: "waiting", key: "W" },
  { status: "running", word: "running", key: "" },
];

/** Counts of what needs a look; each jumps to the next one. */
function JumpChips({ at }: { at: RunAt }) {
  return (
    <div className="end">
      {JUMPS.map((jump) => {
        const paths = pathsWith(at, jump.status);
        if (!paths.length) return null;
        return (
          <button
            type="button"
            key={jump.status}
            className={`chip st st-${jump.status}`}
            onClick={() => at.select(nextOf(paths, at.selected))}
          >
            <Glyph status={jump.status} size={14} />
            {paths.length} {jump.word}
            {jump.key && <Kbd keys={[jump.key]} />}
          </button>
        );
      })}
    </div>
  );
}

function pathsWith(at: RunAt, status: StepStatus): string[] {
  return at.model.rows
    .filter((row) => statusAt(row, at.seq) === status && !isConsequence(row))
    .map((row) => row.path);
}

/** A join that failed because a branch did: the branch is what needs a look. */
function isConsequence(row: Row): boolean {
  const path = row.attempts.at(-1)?.error?.path;
  return path !== undefined && path !== "" && path !== row.path;
}

function nextOf(paths: string[], current: string): string {
  return paths[(paths.indexOf(current) + 1) % paths.length] ?? "";
}

/** The time at the cursor: it goes on while the run does. */
function useRunClock(model: RunModel, seq: number, ticking: boolean, events: RunEvent[]): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!ticking) return;
    const timer = window.setInterval(() => setNow(Date.now()), 500);
    return () => window.clearInterval(timer);
  }, [ticking]);
  return useMemo(() => {
    if (ticking) return Math.max(now, model.lastAt);
    return events.findLast((event) => event.seq <= seq)?.at ?? model.lastAt;
  }, [ticking, now, model, seq, events]);
}

function useRunKeys(
  at: RunAt,
  views: { name: string }[],
  open: (name: string) => void,
  visit: (run: string) => void,
): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target) || !singleKeys()) return;
      if (document.querySelector("dialog[open], [role=menu]")) return;
      const { model, seq } = at;
      const view = views[Number(event.key) - 1];
      if (view) open(view.name);
      else if (event.key === "[") at.goTo(seq - 1);
      else if (event.key === "]") at.goTo(seq + 1);
      else if (event.key === "{") at.goTo(model.checkpoints.findLast((each) => each < seq) ?? 1);
      else if (event.key === "}") at.goTo(model.checkpoints.find((each) => each > seq) ?? model.last);
      else if (event.key === "l" || event.key === "L") at.goTo(model.last);
      else if (event.key === "f") at.select(nextOf(pathsWith(at, "failed"), at.selected));
      else if (event.key === "w") at.select(nextOf(pathsWith(at, "suspended"), at.selected));
      else if (event.key === "p" && at.run.parent) visit(at.run.parent);
      else if (event.key === "j" || event.key === "k") {
        const next = neighbour(at.run.id, event.key === "j" ? 1 : -1);
        if (next) visit(next);
      } else if (event.key === "o")
        document.querySelector<HTMLElement>("[role=treeitem][tabindex='0']")?.focus();
      else if (event.key === "y") void navigator.clipboard?.writeText(at.run.id);
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  });
}

export function statusOf(at: RunAt) {
  return at.live ? at.run.status : runStatusAt(at.model, at.seq);
}
