import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowUp, Inbox, Play, Star, Unplug } from "lucide-react";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Run } from "../../api/client";
import { useLive, useTopic } from "../../api/live";
import { runsQuery } from "../../api/queries";
import { Command, EmptyState } from "../../components/EmptyState";
import { keep, kept } from "../../components/Time";
import { matches, NO_FILTERS, type RunFilters, readFilters, writeFilters } from "../../domain/filters";
import { useCounts } from "../../shell/counts";
import { isTyping, singleKeys } from "../../shell/shortcuts";
import { BulkBar } from "./BulkBar";
import { FilterBox } from "./FilterBox";
import { RunRow } from "./RunRow";

const ROW = 36;
const KEPT = "stepwell.views";

interface View {
  name: string;
  filters: RunFilters;
}

const VIEWS: View[] = [
  { name: "All", filters: NO_FILTERS },
  { name: "Failed", filters: { ...NO_FILTERS, status: ["failed", "timed_out"] } },
  { name: "Waiting", filters: { ...NO_FILTERS, status: ["suspended"] } },
];

/** Runs, newest first and live. New ones wait behind a strip while somebody reads. */
export function RunsPage() {
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const filters = useMemo(() => readFilters(search), [search]);
  const navigate = useNavigate();
  const setFilters = useCallback(
    (next: RunFilters) => void navigate({ to: "/runs", search: writeFilters(next) as never }),
    [navigate],
  );
  const list = useRuns(filters);
  useEffect(() => {
    document.title = "Runs · Stepwell Studio";
  }, []);
  return (
    <main className="main" id="main">
      <div className="pagehead">
        <h1>Runs</h1>
        <Views filters={filters} choose={setFilters} />
        <span className="grow" />
        <Link className="btn primary hide-s" to="/workflows">
          <Play className="i" aria-hidden="true" />
          Start run
        </Link>
      </div>
      <FilterBox filters={filters} change={setFilters} />
      {list.stale && <StaleBanner />}
      <RunTable list={list} filters={filters} clear={() => setFilters(NO_FILTERS)} />
    </main>
  );
}

function StaleBanner() {
  return (
    <div className="banner st-running" role="status">
      <Unplug className="i" aria-hidden="true" />
      <span className="grow">
        These rows may be old: the server does not answer. New ones come by themselves once it is back;
        nothing is missed.
      </span>
    </div>
  );
}

function Views({ filters, choose }: { filters: RunFilters; choose: (filters: RunFilters) => void }) {
  const [own, setOwn] = useState<View[]>(() => JSON.parse(kept(KEPT) || "[]") as View[]);
  const key = JSON.stringify(writeFilters(filters));
  const { statuses, total } = useCounts();
  const counted = (view: View) => {
    const names = Object.keys(writeFilters(view.filters));
    if (!statuses || names.some((name) => name !== "status")) return null;
    return names.length
      ? view.filters.status.reduce((sum, status) => sum + (statuses[status] ?? 0), 0)
      : (total ?? null);
  };
  const all = [...VIEWS, ...own];
  const known = all.some((view) => JSON.stringify(writeFilters(view.filters)) === key);
  const save = () => {
    const name = window.prompt("Name of this view");
    if (!name) return;
    const next = [...own, { name, filters }];
    keep(KEPT, JSON.stringify(next));
    setOwn(next);
  };
  return (
    <div className="views seg" role="group" aria-label="Views">
      {all.map((view) => (
        <button
          type="button"
          key={view.name}
          aria-pressed={JSON.stringify(writeFilters(view.filters)) === key}
          onClick={() => choose(view.filters)}
        >
          {own.includes(view) && <Star className="i s" aria-hidden="true" />}
          {view.name}
          {counted(view) !== null && <span className="t3">{counted(view)?.toLocaleString("en")}</span>}
        </button>
      ))}
      {!known && (
        <button type="button" aria-pressed="false" onClick={save}>
          <Star className="i s" aria-hidden="true" />
          Save view
        </button>
      )}
    </div>
  );
}

export interface RunsList {
  runs: Run[];
  fresh: number; // how many new runs wait behind the strip
  show: () => void;
  loading: boolean;
  stale: boolean;
  error: Error | null;
  more: (() => void) | null;
  hold: (held: boolean) => void;
}

/** The rows of a filter, kept up to date by the stream. */
function useRuns(filters: RunFilters): RunsList {
  const queries = useQueryClient();
  const options = useMemo(() => runsQuery(filters), [filters]);
  const pages = useInfiniteQuery(options);
  const held = useRef(false);
  const [waiting, setWaiting] = useState<Run[]>([]);
  const offline = useLive((stream) => stream.state === "offline");

  const change = useCallback(
    (update: (runs: Run[]) => Run[]) =>
      queries.setQueryData(options.queryKey, (data) => {
        const first = data?.pages[0];
        if (!data || !first) return data;
        const rest = data.pages.slice(1);
        return {
          ...data,
          pages: [
            { ...first, runs: update(first.runs) },
            ...rest.map((page) => ({ ...page, runs: update(page.runs) })),
          ],
        };
      }),
    [queries, options],
  );

  const received = useCallback(
    (name: string, data: unknown) => {
      if (name === "reset") {
        void queries.invalidateQueries({ queryKey: ["runs"] });
        return;
      }
      const changed = data as Run[];
      const known = new Set(
        queries.getQueryData(options.queryKey)?.pages.flatMap((page) => page.runs.map((run) => run.id)),
      );
      const byId = new Map(changed.map((run) => [run.id, run]));
      change((runs) => runs.map((run) => byId.get(run.id) ?? run));
      setWaiting((runs) => runs.map((run) => byId.get(run.id) ?? run));
      const arrived = changed.filter((run) => !known.has(run.id) && matches(run, filters) === true);
      if (arrived.length) setWaiting((runs) => merged(arrived, runs));
    },
    [queries, options, change, filters],
  );
  useTopic("runs", received);

  const show = useCallback(() => {
    setWaiting((arrived) => {
      if (arrived.length) {
        queries.setQueryData(options.queryKey, (data) => {
          const first = data?.pages[0];
          if (!data || !first) return data;
          return {
            ...data,
            pages: [{ ...first, runs: merged(arrived, first.runs) }, ...data.pages.slice(1)],
          };
        });
      }
      return [];
    });
  }, [queries, options]);

  // Nothing moves under the pointer; without one, new rows come at once.
  useEffect(() => {
    if (waiting.length && !held.current) show();
  }, [waiting, show]);
  useEffect(() => setWaiting([]), []);

  const runs = useMemo(() => pages.data?.pages.flatMap((page) => page.runs) ?? [], [pages.data]);
  return {
    runs,
    fresh: waiting.length,
    show,
    loading: pages.isPending,
    stale: offline || (pages.isError && runs.length > 0),
    error: pages.error,
    more: pages.hasNextPage && !pages.isFetchingNextPage ? () => void pages.fetchNextPage() : null,
    hold: (value) => {
      held.current = value;
    },
  };
}

function merged(arrived: Run[], runs: Run[]): Run[] {
  const ids = new Set(arrived.map((run) => run.id));
  return [...arrived, ...runs.filter((run) => !ids.has(run.id))].sort((a, b) => (a.id < b.id ? 1 : -1));
}

function RunTable({ list, filters, clear }: { list: RunsList; filters: RunFilters; clear: () => void }) {
  const scroller = useRef<HTMLDivElement>(null);
  const [cursor, setCursor] = useState(-1);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const select = useCallback(
    (id: string, on: boolean) =>
      setChosen((before) => {
        const next = new Set(before);
        if (on) next.add(id);
        else next.delete(id);
        return next;
      }),
    [],
  );
  const navigate = useNavigate();
  const { runs, more, hold } = list;
  const rows = useVirtualizer({
    count: runs.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 12,
  });
  const items = rows.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && last >= runs.length - 20) more();
  }, [more, last, runs.length]);

  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target) || !singleKeys()) return;
      if (document.querySelector("dialog[open]")) return;
      const run = runs[cursor];
      if (event.key === "j") setCursor((at) => Math.min(at + 1, runs.length - 1));
      else if (event.key === "k") setCursor((at) => Math.max(at - 1, 0));
      else if (event.key === "x" && run) select(run.id, !chosen.has(run.id));
      else if (event.key === ".") list.show();
      else if (event.key === "Enter" && run && event.target === document.body) {
        void navigate({ to: "/runs/$id", params: { id: run.id } });
      }
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, [runs, cursor, navigate, list, chosen, select]);
  useEffect(() => {
    if (cursor >= 0) rows.scrollToIndex(cursor);
  }, [cursor, rows]);

  if (list.loading) return <Skeleton />;
  if (list.error && !runs.length) throw list.error;
  if (!runs.length) return <NoRuns filtered={Object.keys(writeFilters(filters)).length > 0} clear={clear} />;
  const before = items[0]?.start ?? 0;
  const after = rows.getTotalSize() - (items.at(-1)?.end ?? 0);
  return (
    <div
      className="tablewrap scroll"
      ref={scroller}
      onPointerEnter={() => hold(true)}
      onPointerLeave={() => hold((scroller.current?.scrollTop ?? 0) > 0)}
      onScroll={(event) => hold(event.currentTarget.scrollTop > 0 || event.currentTarget.matches(":hover"))}
    >
      <table className="table runs" aria-rowcount={runs.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            <th scope="col" className="c-sel">
              <input
                type="checkbox"
                className="check"
                aria-label="Select all rows"
                checked={chosen.size > 0 && chosen.size === runs.length}
                onChange={(event) =>
                  setChosen(new Set(event.target.checked ? runs.map((run) => run.id) : []))
                }
              />
            </th>
            <th scope="col" className="c-st">
              Status
            </th>
            <th scope="col">Run</th>
            <th scope="col">Workflow</th>
            <th scope="col">Where it is, and why</th>
            <th scope="col" className="num">
              Started
            </th>
            <th scope="col" className="num">
              Duration
            </th>
          </tr>
        </thead>
        <tbody className={list.stale ? "stale" : ""}>
          {list.fresh > 0 && (
            <tr className="newrow">
              <td colSpan={7}>
                <button type="button" className="newpill" onClick={list.show}>
                  <ArrowUp className="i s" aria-hidden="true" /> {list.fresh} new{" "}
                  {list.fresh === 1 ? "run" : "runs"}
                </button>
              </td>
            </tr>
          )}
          {before > 0 && <Spacer height={before} />}
          {items.map((item) => {
            const run = runs[item.index];
            return (
              run && (
                <RunRow
                  key={run.id}
                  run={run}
                  index={item.index + 2}
                  current={item.index === cursor}
                  selected={chosen.has(run.id)}
                  select={select}
                />
              )
            );
          })}
          {after > 0 && <Spacer height={after} />}
        </tbody>
      </table>
      <BulkBar selected={runs.filter((run) => chosen.has(run.id))} clear={() => setChosen(new Set())} />
    </div>
  );
}

function Spacer({ height }: { height: number }) {
  return (
    <tr className="spacer">
      <td colSpan={7} style={{ height }} />
    </tr>
  );
}

function Skeleton() {
  return (
    <div className="skeleton" role="status" aria-label="Loading runs">
      {Array.from({ length: 6 }, (_, index) => (
        <i key={index} />
      ))}
    </div>
  );
}

function NoRuns({ filtered, clear }: { filtered: boolean; clear: () => void }) {
  if (filtered) {
    return (
      <EmptyState
        icon={<Inbox className="i l" aria-hidden="true" />}
        title="No run matches these filters"
        action={
          <button type="button" className="btn" onClick={clear}>
            Clear the filters
          </button>
        }
      />
    );
  }
  return (
    <EmptyState
      icon={<Inbox className="i l" aria-hidden="true" />}
      title="No runs yet"
      action={
        <>
          <Link className="btn primary" to="/workflows">
            <Play className="i" aria-hidden="true" />
            Start one
          </Link>
          <Command text="stepwell runs --help" />
        </>
      }
    >
      Runs appear here the moment they are accepted, whoever starts them.
    </EmptyState>
  );
}
