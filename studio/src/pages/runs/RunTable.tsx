import { useQuery } from "@tanstack/react-query";
import { useNavigate, useRouterState } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowUp } from "lucide-react";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { Run } from "../../api/client";
import { endingsQuery, positionsQuery } from "../../api/queries";
import type { BulkVerb, RunFilters } from "../../domain/filters";
import { isTyping, singleKeys } from "../../shell/shortcuts";
import { BulkBar } from "./BulkBar";
import type { Columns } from "./columns";
import { rememberList } from "./lastList";
import { RunRow } from "./RunRow";
import { useBulk } from "./useBulk";
import type { RunsList } from "./useRuns";

const ROW = 36;

/** Where somebody was in the list, by entry of the browser's history: the back button finds it again. */
const places = new Map<string, { top: number; cursor: string }>();

export function RunTable(props: {
  list: RunsList;
  filters: RunFilters;
  columns: Columns;
  bulk: boolean;
  openBulk: (open: boolean) => void;
}) {
  const { list, filters, columns, openBulk } = props;
  const { runs, more, hold } = list;
  const entry = useRouterState({ select: (state) => state.location.state.__TSR_key ?? "" });
  const scroller = useRef<HTMLDivElement>(null);
  const [cursor, setCursor] = useState(() => places.get(entry)?.cursor ?? "");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [asked, setAsked] = useState<BulkVerb | "">("");
  const anchor = useRef("");
  const selected = useMemo(() => runs.filter((run) => chosen.has(run.id)), [runs, chosen]);
  const bulk = useBulk(filters, selected, props.bulk);
  const select = useCallback(
    (id: string, on: boolean) => {
      anchor.current = id;
      openBulk(true);
      setChosen((before) => {
        const next = new Set(before);
        if (on) next.add(id);
        else next.delete(id);
        return next;
      });
    },
    [openBulk],
  );
  const close = useCallback(() => {
    bulk.clear();
    setChosen(new Set());
    openBulk(false);
  }, [bulk.clear, openBulk]);
  const navigate = useNavigate();
  const rows = useVirtualizer({
    count: runs.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 12,
    initialOffset: places.get(entry)?.top ?? 0,
  });
  const items = rows.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  const moving = items.some((item) => isMoving(runs[item.index]));
  const positions = useQuery({ ...positionsQuery, enabled: moving && !list.stale });
  const untold = runs.filter((run) => isOver(run) && !run.position).map((run) => run.id);
  const endings = useQuery({
    ...endingsQuery,
    queryKey: [...endingsQuery.queryKey, untold.join()],
    enabled: untold.length > 0 && !list.stale,
    staleTime: Number.POSITIVE_INFINITY,
  });
  useEffect(() => {
    if (more && last >= runs.length - 20) more();
  }, [more, last, runs.length]);
  useLayoutEffect(() => {
    const top = places.get(entry)?.top;
    if (top && scroller.current) scroller.current.scrollTop = top;
  }, [entry]);
  useEffect(() => rememberList(runs), [runs]);
  const leave = useRef({ top: 0, cursor: "" });
  leave.current.cursor = cursor;
  useEffect(() => () => void places.set(entry, { ...leave.current }), [entry]);

  const index = runs.findIndex((run) => run.id === cursor);
  const go = (to: number) => {
    const next = runs[Math.min(Math.max(to, 0), runs.length - 1)];
    if (!next) return;
    setCursor(next.id);
    rows.scrollToIndex(runs.indexOf(next));
  };
  const act = (verb: BulkVerb) => {
    const run = runs[index];
    if (!chosen.size && run) setChosen(new Set([run.id]));
    if (!chosen.size && !run) return;
    openBulk(true);
    setAsked(verb);
  };
  const selectRange = () => {
    const from = runs.findIndex((run) => run.id === anchor.current);
    const [low, high] = [Math.min(from, index), Math.max(from, index)];
    if (from >= 0) setChosen(new Set([...chosen, ...runs.slice(low, high + 1).map((run) => run.id)]));
  };
  const keys: Record<string, () => void> = {
    j: () => go(index + 1),
    k: () => go(index - 1),
    x: () => cursor && select(cursor, !chosen.has(cursor)),
    r: () => act("retry"),
    c: () => act("cancel"),
    b: () => openBulk(!props.bulk),
    ".": list.show,
  };
  keys.X = selectRange;
  keys.Enter = () => cursor && void navigate({ to: "/runs/$id", params: { id: cursor } });
  useListKeys(keys);
  return (
    <div
      className="tablewrap scroll"
      ref={scroller}
      onPointerEnter={() => hold(true)}
      onPointerLeave={() => hold((scroller.current?.scrollTop ?? 0) > 0)}
      onScroll={(event) => {
        leave.current.top = event.currentTarget.scrollTop;
        hold(event.currentTarget.scrollTop > 0 || event.currentTarget.matches(":hover"));
      }}
    >
      <table className="table runs" aria-label="Runs" aria-rowcount={runs.length + 1}>
        <Head
          columns={columns}
          all={chosen.size > 0 && chosen.size === runs.length}
          selectAll={(on) => {
            setChosen(new Set(on ? runs.map((run) => run.id) : []));
            openBulk(on);
          }}
        />
        <tbody className={list.stale ? "stale" : ""}>
          {list.fresh > 0 && (
            <tr className="newrow">
              <td colSpan={10}>
                <button type="button" className="newpill" onClick={list.show}>
                  <ArrowUp className="i s" aria-hidden="true" /> {list.fresh} new{" "}
                  {list.fresh === 1 ? "run" : "runs"}
                </button>
              </td>
            </tr>
          )}
          <Spacer height={items[0]?.start ?? 0} />
          {items.map((item) => {
            const run = runs[item.index];
            return (
              run && (
                <RunRow
                  key={run.id}
                  run={placed(run, isMoving(run) ? positions.data : endings.data)}
                  index={item.index + 2}
                  current={run.id === cursor}
                  selected={chosen.has(run.id)}
                  columns={columns}
                  select={select}
                />
              )
            );
          })}
          <Spacer height={rows.getTotalSize() - (items.at(-1)?.end ?? 0)} />
        </tbody>
      </table>
      {props.bulk && (
        <BulkBar
          bulk={bulk}
          filters={filters}
          selected={selected.length}
          asked={asked}
          ask={setAsked}
          close={close}
        />
      )}
    </div>
  );
}

function useListKeys(keys: Record<string, () => void>): void {
  const known = useRef(keys);
  known.current = keys;
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target) || !singleKeys()) return;
      if (document.querySelector("dialog[open]")) return;
      const onControl = event.target instanceof Element && event.target.closest("a, button, [role=slider]");
      const act = known.current[event.key];
      if (!act || (event.key === "Enter" && onControl)) return;
      event.preventDefault();
      act();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
}

function isMoving(run: Run | undefined): boolean {
  return run?.status === "running" || run?.status === "pending";
}

function isOver(run: Run): boolean {
  return run.status === "failed" || run.status === "timed_out" || run.status === "cancelled";
}

/** A run with where it is now, or how it ended; its row knows only where it last waited. */
function placed(run: Run, positions: Map<string, Run["position"]> | undefined): Run {
  const position = isMoving(run) || isOver(run) ? positions?.get(run.id) : undefined;
  return position ? { ...run, position } : run;
}

function Head(props: { columns: Columns; all: boolean; selectAll: (on: boolean) => void }) {
  const { columns } = props;
  return (
    <thead>
      <tr aria-rowindex={1}>
        <th scope="col" className="c-sel">
          <input
            type="checkbox"
            className="check"
            aria-label="Select all rows"
            checked={props.all}
            onChange={(event) => props.selectAll(event.target.checked)}
          />
        </th>
        <th scope="col" className="c-st">
          Status
        </th>
        <th scope="col">Run</th>
        {columns.workflow && <th scope="col">Workflow</th>}
        <th scope="col">Where it is, and why</th>
        {columns.tags && <th scope="col">Tags</th>}
        {columns.trigger && <th scope="col">Trigger</th>}
        {columns.started && (
          <th scope="col" className="num">
            Started
          </th>
        )}
        {columns.duration && (
          <th scope="col" className="num">
            Duration
          </th>
        )}
      </tr>
    </thead>
  );
}

function Spacer({ height }: { height: number }) {
  if (height <= 0) return null;
  return (
    <tr className="spacer">
      <td colSpan={10} style={{ height }} />
    </tr>
  );
}
