import { useQuery } from "@tanstack/react-query";
import { Star, X } from "lucide-react";
import { useId, useState } from "react";
import { histogramQuery } from "../../api/queries";
import { FormDialog } from "../../components/FormDialog";
import { keep, kept } from "../../components/Time";
import { NO_FILTERS, type RunFilters, readFilters, writeFilters } from "../../domain/filters";
import { totals } from "../../domain/histogram";
import { useCounts } from "../../shell/counts";

const KEPT = "stepwell.views";

interface View {
  name: string;
  filters: RunFilters;
}

const VIEWS: View[] = [
  { name: "All", filters: NO_FILTERS },
  { name: "Failed today", filters: { ...NO_FILTERS, status: ["failed", "timed_out"], since: "24h" } },
  { name: "Waiting", filters: { ...NO_FILTERS, status: ["suspended"] } },
];

function keptViews(): View[] {
  try {
    const read = JSON.parse(kept(KEPT) || "[]") as View[];
    return read.map((view) => ({
      name: String(view.name),
      filters: readFilters({ ...view.filters, status: view.filters.status.join(",") }),
    }));
  } catch {
    return []; // written by something else
  }
}

/** Named filters: ours, and those that somebody saved in this browser. */
export function Views({ filters, choose }: { filters: RunFilters; choose: (filters: RunFilters) => void }) {
  const [own, setOwn] = useState(keptViews);
  const [naming, setNaming] = useState(false);
  const { statuses, total } = useCounts();
  const today = useQuery(histogramQuery(NO_FILTERS));
  const counted = (view: View): number | null => {
    const names = Object.keys(writeFilters(view.filters));
    if (names.some((name) => name !== "status" && name !== "since")) return null;
    if (view.filters.since && view.filters.since !== "24h") return null;
    if (!names.length) return total ?? null;
    const by = view.filters.since ? today.data && totals(today.data) : statuses;
    return by ? view.filters.status.reduce((sum, status) => sum + (by[status] ?? 0), 0) : null;
  };
  const key = JSON.stringify(writeFilters(filters));
  const is = (view: View) => JSON.stringify(writeFilters(view.filters)) === key;
  const write = (next: View[]) => {
    keep(KEPT, next.length ? JSON.stringify(next) : "");
    setOwn(next);
  };
  return (
    <div className="views seg" role="group" aria-label="Views">
      {[...VIEWS, ...own].map((view) => (
        <button type="button" key={view.name} aria-pressed={is(view)} onClick={() => choose(view.filters)}>
          {own.includes(view) && <Star className="i s" aria-hidden="true" />}
          {view.name}
          {counted(view) !== null && <span className="t3">{counted(view)?.toLocaleString("en")}</span>}
        </button>
      ))}
      {own.some(is) && (
        <button
          type="button"
          aria-label={`Delete the view ${own.find(is)?.name}`}
          title="Delete this view"
          onClick={() => write(own.filter((view) => !is(view)))}
        >
          <X className="i s" aria-hidden="true" />
        </button>
      )}
      {![...VIEWS, ...own].some(is) && (
        <button type="button" onClick={() => setNaming(true)}>
          <Star className="i s" aria-hidden="true" />
          Save view…
        </button>
      )}
      {naming && (
        <NameDialog
          taken={[...VIEWS, ...own].map((view) => view.name)}
          close={() => setNaming(false)}
          save={(name) => write([...own, { name, filters }])}
        />
      )}
    </div>
  );
}

function NameDialog(props: { taken: string[]; close: () => void; save: (name: string) => void }) {
  const [name, setName] = useState("");
  const id = useId();
  const known = props.taken.includes(name.trim());
  return (
    <FormDialog
      title="Save this view"
      lead="Saves the current filters under a name, in this browser. To share them, copy the address of this page."
      close={props.close}
      keep="Close"
      word="Save view"
      ready={name.trim() !== "" && !known}
      problem={known ? `A view named ${name.trim()} already exists.` : ""}
      act={() => {
        props.save(name.trim());
        props.close();
      }}
    >
      <div className="field">
        <label htmlFor={id}>Name</label>
        <input id={id} className="input" value={name} onChange={(event) => setName(event.target.value)} />
      </div>
    </FormDialog>
  );
}
