import { useVirtualizer } from "@tanstack/react-virtual";
import { ChevronDown, ChevronRight, RotateCcw } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { Glyph } from "../../components/Glyph";
import { useZoneName } from "../../components/Time";
import { fromHistory, progressAt } from "../../domain/run";
import { statusWord } from "../../domain/status";
import { clock, duration } from "../../domain/time";
import { type TreeRow, timeline } from "../../domain/timeline";
import { isTyping, singleKeys } from "../../shell/shortcuts";
import { type RunAt, statusOf } from "./RunPage";

const ROW = 31;

/** Steps as a tree beside their times. Queued and executing differ; long idle times are folded. */
export function StepsView({ at }: { at: RunAt }) {
  const [collapse, setCollapse] = useState(true);
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const zone = useZoneName();
  const scroller = useRef<HTMLDivElement>(null);
  const line = useMemo(() => {
    // Progress counts the step that is going on, if one is called that often.
    const progress = progressAt(at.model, at.seq);
    const latest = at.model.rows.findLast((row) => row.first <= at.seq)?.name;
    const total = (step: string) => (step === latest ? (progress?.total ?? null) : null);
    return timeline(at.model, {
      seq: at.seq,
      end: at.now,
      collapse,
      opened,
      name: at.run.workflow,
      total,
    });
  }, [at.model, at.seq, at.now, collapse, opened, at.run.workflow]);
  const rows = line.rows.map((row) => (row.id === "" ? { ...row, status: statusOf(at) } : row));
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 10,
  });
  const toggle = (id: string) =>
    setOpened((before) => {
      const next = new Set(before);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  const groups = rows.filter((row) => row.group).map((row) => row.group);
  useKey("e", () => setOpened(groups.every((id) => opened.has(id)) ? new Set() : new Set(groups)));
  const selectable = rows.filter((row) => row.row);
  const move = (by: number) => {
    const index = selectable.findIndex((row) => row.id === at.selected);
    const next = selectable[Math.max(0, Math.min(index + by, selectable.length - 1))];
    if (next) at.select(next.id);
  };
  const index = rows.findIndex((row) => row.id === at.selected);
  useEffect(() => {
    if (index >= 0) virtual.scrollToIndex(index);
  }, [index, virtual]);
  return (
    <div className="tpane">
      <div className="tbar">
        <span className="legend xxs t2">
          <span>
            <i className="lgd q" />
            queued
          </span>
          <span>
            <i className="lgd ok" />
            executing
          </span>
          <span>
            <i className="lgd wait" />
            waiting
          </span>
          <span className="lgh">
            <RotateCcw className="i s" aria-hidden="true" /> from history
          </span>
        </span>
        <span className="grow" />
        <label className="row g1 xs t2 nowrap">
          <input
            type="checkbox"
            className="switch"
            role="switch"
            checked={collapse}
            onChange={(event) => setCollapse(event.target.checked)}
          />
          Collapse idle
        </label>
      </div>
      <div
        className="tgrid"
        role="treegrid"
        aria-label="Steps and timeline"
        tabIndex={0}
        ref={scroller}
        onKeyDown={(event) => {
          const group = rows[index]?.group ?? "";
          if (event.key === "ArrowDown") move(1);
          else if (event.key === "ArrowUp") move(-1);
          else if (event.key === "ArrowRight" && group && !opened.has(group)) toggle(group);
          else if (event.key === "ArrowLeft" && group && opened.has(group)) toggle(group);
          else return;
          event.preventDefault();
        }}
      >
        <div className="trow thead2" role="row">
          <div className="tn" role="columnheader">
            <span className="xs t3">Step</span>
          </div>
          <div className="tl axis" role="columnheader" aria-label="Time">
            {line.ticks.map((tick, position) => (
              <span key={position} style={{ left: percent(tick.at) }}>
                {tick.first ? clock(tick.time, zone) : duration(tick.ms)}
              </span>
            ))}
            {line.gaps.map((gap) => (
              <span
                className="idlelab"
                key={gap.from}
                style={{ left: percent(gap.from), width: percent(gap.to - gap.from) }}
              >
                {duration(gap.ms)} idle
              </span>
            ))}
          </div>
        </div>
        <div className="tbody" role="rowgroup" style={{ height: virtual.getTotalSize() }}>
          <div className="tunder">
            {line.ticks.map((tick, position) => (
              <i className="gridline" key={position} style={{ left: percent(tick.at) }} />
            ))}
          </div>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index];
            return (
              row && (
                <StepRow
                  key={row.id || "run"}
                  at={at}
                  row={row}
                  top={item.start}
                  gaps={line.gaps}
                  toggle={() => toggle(row.group)}
                />
              )
            );
          })}
          <div className="tover">
            {line.crashes.map((crash) => (
              <div className="crash" key={crash.at} style={{ left: percent(crash.at) }}>
                <span>
                  {crash.lost.slice(0, 8)} lost{crash.worker ? `, ${crash.worker.slice(0, 8)} took over` : ""}
                </span>
              </div>
            ))}
            <div className="now" style={{ left: percent(line.now) }} />
          </div>
        </div>
      </div>
    </div>
  );
}

function StepRow(props: {
  at: RunAt;
  row: TreeRow;
  top: number;
  gaps: { from: number; to: number }[];
  toggle: () => void;
}) {
  const { at, row } = props;
  const history = row.row !== null && fromHistory(at.model, row.row, at.seq);
  const selected = row.row !== null && row.id === at.selected;
  const took = row.took === null ? "" : duration(row.took);
  return (
    <div
      className={selected ? "trow sel" : "trow"}
      role="row"
      aria-label={`${row.name}, ${statusWord(row.status)}${history ? ", from history" : ""}${row.tag ? `, ${row.tag}` : ""}`}
      aria-level={row.depth + 1}
      aria-selected={row.row ? selected : undefined}
      aria-expanded={row.group ? row.open : undefined}
      style={{ transform: `translateY(${props.top}px)` }}
      onClick={() => (row.row ? at.select(row.id) : row.group && props.toggle())}
    >
      <div className="tn" role="gridcell" style={{ "--d": row.depth } as React.CSSProperties}>
        {row.lane && <i className={`lane ${row.lane}`} />}
        {row.group || row.depth === 0 ? (
          row.open ? (
            <ChevronDown className="i s" aria-hidden="true" />
          ) : (
            <ChevronRight className="i s" aria-hidden="true" />
          )
        ) : (
          <span className="noch" />
        )}
        <Glyph status={row.status} size={14} />
        <span className="mono clip">{row.name}</span>
        <span className="sr">, {statusWord(row.status)}</span>
        {row.tag && <span className="tag">{row.tag}</span>}
        {history && (
          <span className="hist" title="From history: it ran once, before the worker was lost">
            <RotateCcw className="i s" aria-hidden="true" />
            <span className="sr">from history</span>
          </span>
        )}
        <span className="dur">
          {row.depth === 0 ? `${took} ${row.status === "pending" ? "queued" : "active"}` : row.note || took}
        </span>
      </div>
      <div className="tl" role="gridcell" aria-label={took || "not started"}>
        {props.gaps.map((gap) => (
          <i
            className="idlegap"
            key={gap.from}
            style={{ left: percent(gap.from), width: percent(gap.to - gap.from) }}
          />
        ))}
        {row.density.map((bin) => (
          <i
            className={`dens st-${row.status}${bin.bad ? " bad" : ""}`}
            key={bin.from}
            style={{
              left: percent(bin.from),
              width: percent(bin.to - bin.from),
              height: `${Math.round(bin.share * 18)}px`,
            }}
          />
        ))}
        {row.bars.map((bar, position) => (
          <i
            className={`tb ${bar.kind === "root" ? `root st-${row.status}` : bar.kind}`}
            key={position}
            style={{ left: percent(bar.from), width: percent(Math.max(bar.to - bar.from, 0.002)) }}
          />
        ))}
      </div>
    </div>
  );
}

/** A single key of the page; off in inputs. */
function useKey(key: string, act: () => void): void {
  const known = useRef(act);
  known.current = act;
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key !== key || event.metaKey || event.ctrlKey || event.altKey) return;
      if (isTyping(event.target) || !singleKeys() || document.querySelector("dialog[open]")) return;
      known.current();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, [key]);
}

function percent(share: number): string {
  return `${(share * 100).toFixed(2)}%`;
}
