import { useVirtualizer } from "@tanstack/react-virtual";
import {
  Check,
  ChevronDown,
  ChevronRight,
  Crosshair,
  Diamond,
  Download,
  Funnel,
  Mail,
  Play,
  Search,
  Timer,
} from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { root } from "../../api/client";
import { Glyph } from "../../components/Glyph";
import { JsonView } from "../../components/JsonView";
import { useZoneName } from "../../components/Time";
import { EVENT_GROUPS, type EventGroup, groupOf, isFailure, summary } from "../../domain/eventKinds";
import { placeName } from "../../domain/path";
import type { RunEvent } from "../../domain/run";
import { clock } from "../../domain/time";
import type { RunAt } from "./RunPage";

const ROW = 28;

/** The log, row by row. Only what is in view is in the page. */
export function EventsView({ at }: { at: RunAt }) {
  const [group, setGroup] = useState<EventGroup | "">("");
  const [failed, setFailed] = useState(false);
  const [text, setText] = useState("");
  const [opened, setOpened] = useState(0);
  const zone = useZoneName();
  const scroller = useRef<HTMLDivElement>(null);
  const past = useMemo(() => at.events.filter((event) => event.seq <= at.seq), [at.events, at.seq]);
  const counts = useMemo(() => {
    const found = new Map<EventGroup, number>();
    for (const event of past) found.set(groupOf(event.kind), (found.get(groupOf(event.kind)) ?? 0) + 1);
    return found;
  }, [past]);
  const failures = useMemo(() => past.filter(isFailure).length, [past]);
  const wanted = text.toLowerCase();
  const shown = useMemo(
    () =>
      past.filter(
        (event) =>
          (!group || groupOf(event.kind) === group) &&
          (!failed || isFailure(event)) &&
          (!wanted || `${event.kind} ${event.path} ${summary(event)}`.toLowerCase().includes(wanted)),
      ),
    [past, group, failed, wanted],
  );
  const rows = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => (shown[index]?.seq === opened ? 260 : ROW),
    overscan: 10,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: an opened row is taller
  useEffect(() => rows.measure(), [opened, rows, shown]);
  const items = rows.getVirtualItems();
  const before = items[0]?.start ?? 0;
  const after = rows.getTotalSize() - (items.at(-1)?.end ?? 0);
  return (
    <>
      <div className="evbar">
        <button
          type="button"
          className={group ? "chip" : "chip on"}
          aria-pressed={!group}
          onClick={() => setGroup("")}
        >
          All <span className="t3">{past.length}</span>
        </button>
        {EVENT_GROUPS.filter((name) => counts.get(name)).map((name) => (
          <button
            type="button"
            key={name}
            className={group === name ? "chip on" : "chip"}
            aria-pressed={group === name}
            onClick={() => setGroup(name)}
          >
            {name} <span className="t3">{counts.get(name)}</span>
          </button>
        ))}
        <label className="row g1 xs t2">
          <input
            type="checkbox"
            className="switch"
            role="switch"
            checked={failed}
            onChange={(event) => setFailed(event.target.checked)}
          />
          Failed only <span className="t3">{failures}</span>
        </label>
        <span className="grow" />
        <a
          className="iconbtn"
          href={`${root}/api/v1/runs/${at.run.id}/export`}
          aria-label="Download the run with all events"
          title="Download the run with all events"
        >
          <Download className="i" aria-hidden="true" />
        </a>
        <div className="filterbox evfilter">
          <Search className="i s" aria-hidden="true" />
          <input
            className="bare"
            aria-label="Search events"
            placeholder="kind, path or text"
            data-filter
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        </div>
      </div>
      <section className="evwrap scroll" ref={scroller} aria-label="Events" tabIndex={0}>
        <table className="table evt" aria-rowcount={shown.length + 1}>
          <thead>
            <tr aria-rowindex={1}>
              <th scope="col" className="num">
                Seq
              </th>
              <th scope="col">Time</th>
              <th scope="col" className="num hide-s">
                Δ s
              </th>
              <th scope="col">Kind</th>
              <th scope="col">Path</th>
              <th scope="col" className="num">
                Attempt
              </th>
              <th scope="col">Summary</th>
            </tr>
          </thead>
          <tbody>
            {before > 0 && <Space height={before} />}
            {items.map((item) => {
              const event = shown[item.index];
              return (
                event && (
                  <EventRow
                    key={event.seq}
                    event={event}
                    index={item.index + 2}
                    since={event.at - (at.events[event.seq - 2]?.at ?? event.at)}
                    zone={zone}
                    open={opened === event.seq}
                    toggle={() => setOpened(opened === event.seq ? 0 : event.seq)}
                    goTo={() => at.goTo(event.seq)}
                    filter={() => setText(event.path)}
                  />
                )
              );
            })}
            {after > 0 && <Space height={after} />}
          </tbody>
        </table>
      </section>
      <div className="evfoot xs t3">
        <span className="grow">
          {items.length
            ? `Rows ${(items[0]?.index ?? 0) + 1} to ${(items.at(-1)?.index ?? 0) + 1} of ${shown.length}`
            : "No event matches"}
          {shown.length === past.length ? "" : `, of ${past.length} events`}
        </span>
      </div>
    </>
  );
}

const icon = { className: "i s", "aria-hidden": true } as const;

function iconOf(kind: string) {
  if (/completed$/.test(kind)) return <Check {...icon} />;
  if (/^timer|^change_delay/.test(kind)) return <Timer {...icon} />;
  if (/^(received|published|wait)/.test(kind)) return <Mail {...icon} />;
  if (/started|scheduled|resumed|claimed|accepted/.test(kind)) return <Play {...icon} />;
  return <Diamond {...icon} />;
}

function Space({ height }: { height: number }) {
  return (
    <tr className="spacer">
      <td colSpan={7} style={{ height }} />
    </tr>
  );
}

function EventRow(props: {
  event: RunEvent;
  index: number;
  since: number;
  zone: string | undefined;
  open: boolean;
  toggle: () => void;
  goTo: () => void;
  filter: () => void;
}) {
  const { event } = props;
  const bad = isFailure(event);
  return (
    <>
      <tr aria-rowindex={props.index} className={props.open ? "cur" : ""}>
        <td className="num mono xs t3">{event.seq}</td>
        <td className="mono xs t2 nowrap">{clock(event.at, props.zone, true)}</td>
        <td className="num mono xs t3 hide-s">+{(props.since / 1000).toFixed(3)}</td>
        <td>
          <button
            type="button"
            className={bad ? "evk st-failed" : "evk"}
            aria-expanded={props.open}
            onClick={props.toggle}
          >
            {props.open ? (
              <ChevronDown className="i s" aria-hidden="true" />
            ) : (
              <ChevronRight className="i s" aria-hidden="true" />
            )}
            {bad ? <Glyph status="failed" size={14} /> : iconOf(event.kind)}
            <span>{event.kind}</span>
          </button>
        </td>
        <td className="mono xs clip" title={event.path}>
          {event.path}
        </td>
        <td className="num xs t2">{event.attempt || ""}</td>
        <td className="t2 clip">{summary(event)}</td>
      </tr>
      {props.open && (
        <tr className="exp">
          <td colSpan={7}>
            <div className="exprow">
              <div className="grow">
                <JsonView value={event.data} name={`event-${event.seq}`} />
              </div>
              <div className="evacts">
                <button type="button" className="btn sm" onClick={props.goTo}>
                  <Crosshair className="i s" aria-hidden="true" />
                  Go to this moment
                </button>
                {event.path && (
                  <button type="button" className="btn sm" onClick={props.filter}>
                    <Funnel className="i s" aria-hidden="true" />
                    Filter by {placeName(event.path)}
                  </button>
                )}
              </div>
            </div>
          </td>
        </tr>
      )}
    </>
  );
}
