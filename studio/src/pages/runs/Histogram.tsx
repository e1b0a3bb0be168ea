import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Table2 } from "lucide-react";
import { useRef, useState } from "react";
import { histogramQuery } from "../../api/queries";
import { useZoneName } from "../../components/Time";
import { countable, type RunFilters } from "../../domain/filters";
import { type Brush, type Bucket, moved, ordered, segments, total, totals } from "../../domain/histogram";
import { statusWord } from "../../domain/status";
import { clock } from "../../domain/time";

/** Runs by the time they were created. Dragging over them, or arrows and Enter, sets the time range. */
export function Histogram(props: { filters: RunFilters; change: (filters: RunFilters) => void }) {
  const { filters } = props;
  const [table, setTable] = useState(false);
  const [brush, setBrush] = useState<Brush | null>(null);
  const drawing = useRef<HTMLDivElement>(null);
  const from = useRef(0);
  const zone = useZoneName();
  const counted = useQuery({ ...histogramQuery(filters), placeholderData: keepPreviousData });
  const buckets = counted.data ?? [];
  if (!countable(filters) || !buckets.length) return null;
  const most = Math.max(1, ...buckets.map(total));
  const count = buckets.length;
  const width = (buckets[1]?.start ?? 0) - (buckets[0]?.start ?? 0);
  const words = brush
    ? `${label(buckets[brush.first]?.start ?? 0, zone)} to ${label((buckets[brush.last]?.start ?? 0) + width, zone)}`
    : "no range selected";
  const choose = (wanted: Brush) => {
    const first = buckets[wanted.first]?.start ?? 0;
    const last = (buckets[wanted.last]?.start ?? 0) + width;
    setBrush(null);
    props.change({
      ...filters,
      since: new Date(Math.floor(first / 1000) * 1000).toISOString(),
      until: new Date(Math.ceil(last / 1000) * 1000).toISOString(),
    });
  };
  const bucketAt = (event: React.PointerEvent) => {
    const box = drawing.current?.getBoundingClientRect();
    return box ? Math.floor(((event.clientX - box.left) / box.width) * count) : 0;
  };
  const pressed = (event: React.KeyboardEvent) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by) setBrush(moved(brush ?? { first: count - 1, last: count - 1 }, by, event.shiftKey, count));
    else if (event.key === "Enter" && brush) choose(brush);
    else if (event.key === "Escape" && brush) setBrush(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <figure className="histo" aria-label={sentence(buckets, zone)}>
      <div
        className="hbars"
        ref={drawing}
        role="slider"
        tabIndex={0}
        aria-label="Time range: arrows move it, Shift and arrows widen it, Enter sets it"
        aria-valuemin={0}
        aria-valuemax={count - 1}
        aria-valuenow={brush?.first ?? 0}
        aria-valuetext={words}
        onKeyDown={pressed}
        onBlur={() => setBrush(null)}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          from.current = bucketAt(event);
          setBrush(ordered(from.current, from.current, count));
        }}
        onPointerMove={(event) => {
          if (event.buttons === 1) setBrush(ordered(from.current, bucketAt(event), count));
        }}
        onPointerUp={(event) => {
          const wanted = ordered(from.current, bucketAt(event), count);
          if (wanted.last > wanted.first) choose(wanted);
          else setBrush(null);
        }}
      >
        <svg viewBox={`0 0 ${count * 10} 44`} preserveAspectRatio="none" aria-hidden="true">
          {brush && (
            <rect
              className="h-brush"
              x={brush.first * 10}
              y={0}
              width={(brush.last - brush.first + 1) * 10}
              height={44}
            />
          )}
          {buckets.map((bucket, index) =>
            segments(bucket, most).map((part) => (
              <rect
                key={`${index} ${part.kind}`}
                className={`h-${part.kind}`}
                x={index * 10 + 0.5}
                width={9}
                y={44 - Math.max(part.to * 40, 2)}
                height={Math.max((part.to - part.from) * 40, 2)}
              />
            )),
          )}
        </svg>
      </div>
      <div className="hx xxs t3">
        {[0, 0.25, 0.5, 0.75].map((share) => (
          <span key={share}>{label(buckets[Math.floor(share * count)]?.start ?? 0, zone)}</span>
        ))}
        <span>{filters.until ? label((buckets.at(-1)?.start ?? 0) + width, zone) : "now"}</span>
        <button
          type="button"
          className="iconbtn sm htwin"
          aria-label="Show as a table"
          title="Show as a table"
          aria-expanded={table}
          onClick={() => setTable(!table)}
        >
          <Table2 className="i s" aria-hidden="true" />
        </button>
      </div>
      {table && <Twin buckets={buckets} zone={zone} />}
    </figure>
  );
}

function Twin({ buckets, zone }: { buckets: Bucket[]; zone: string | undefined }) {
  const filled = buckets.filter((bucket) => total(bucket) > 0);
  return (
    <div className="scroll htable" tabIndex={0} role="region" aria-label="Runs by time">
      <table className="table">
        <thead>
          <tr>
            <th scope="col">From</th>
            <th scope="col" className="num">
              Runs
            </th>
            <th scope="col">By status</th>
          </tr>
        </thead>
        <tbody>
          {filled.map((bucket) => (
            <tr key={bucket.start}>
              <td>{label(bucket.start, zone)}</td>
              <td className="num">{total(bucket)}</td>
              <td className="t2">
                {Object.entries(bucket.statuses)
                  .map(([status, count]) => `${count} ${statusWord(status as never).toLowerCase()}`)
                  .join(", ")}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function sentence(buckets: Bucket[], zone: string | undefined): string {
  const sums = totals(buckets);
  const all = buckets.reduce((sum, bucket) => sum + total(bucket), 0);
  const failed = (sums.failed ?? 0) + (sums.timed_out ?? 0);
  return `${all} runs since ${label(buckets[0]?.start ?? 0, zone)}, ${failed} of them failed`;
}

/** "09:15", with the day when it is not today. */
function label(at: number, zone: string | undefined): string {
  const day = (moment: number) =>
    new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: zone }).format(moment);
  const time = clock(at, zone).slice(0, 5);
  if (day(at) === day(Date.now())) return time;
  return day(at) === day(Date.now() - 86_400_000) ? `${time} yesterday` : `${day(at)} ${time}`;
}
