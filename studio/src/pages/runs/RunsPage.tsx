import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Columns3, Inbox, ListChecks, Play, Unplug } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import { useCallback, useMemo, useState } from "react";
import { live, useLive } from "../../api/live";
import { Command, EmptyState } from "../../components/EmptyState";
import { Kbd } from "../../components/Kbd";
import { useNow } from "../../components/Time";
import { usePageTitle } from "../../components/usePageTitle";
import { NO_FILTERS, type RunFilters, readFilters, writeFilters } from "../../domain/filters";
import { statusWord } from "../../domain/status";
import { duration } from "../../domain/time";
import { useCounts } from "../../shell/counts";
import { COLUMN_WORDS, type Columns, useColumns } from "./columns";
import { FilterBox } from "./FilterBox";
import { Histogram } from "./Histogram";
import { RunTable } from "./RunTable";
import { useRuns } from "./useRuns";
import { Views } from "./Views";

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
  const { columns } = useColumns();
  const [bulk, setBulk] = useState(false);
  usePageTitle("Runs");
  if (list.error && !list.runs.length) throw list.error;
  return (
    <main className="main" id="main">
      <div className="pagehead">
        <h1>Runs</h1>
        <Views filters={filters} choose={setFilters} />
        <span className="grow" />
        <button
          type="button"
          className="btn"
          aria-pressed={bulk}
          disabled={!list.runs.length}
          onClick={() => setBulk(!bulk)}
        >
          <ListChecks className="i" aria-hidden="true" />
          Bulk <Kbd keys={["B"]} />
        </button>
        <ColumnMenu />
        <Link className="btn primary hide-s" to="/workflows">
          <Play className="i" aria-hidden="true" />
          Start run
        </Link>
      </div>
      <FilterBox filters={filters} change={setFilters} />
      <Histogram filters={filters} change={setFilters} />
      {list.stale && <StaleBanner />}
      {list.loading ? (
        <Skeleton />
      ) : list.runs.length || bulk ? ( // a job's progress stays when nothing matches any more
        <RunTable
          key={JSON.stringify(filters)}
          list={list}
          filters={filters}
          columns={columns}
          bulk={bulk}
          openBulk={setBulk}
        />
      ) : (
        <NoRuns filters={filters} clear={() => setFilters(NO_FILTERS)} />
      )}
    </main>
  );
}

function ColumnMenu() {
  const { columns, toggle } = useColumns();
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger className="btn hide-s">
        <Columns3 className="i" aria-hidden="true" />
        Columns
      </DropdownMenu.Trigger>
      <DropdownMenu.Content className="menu" align="end" sideOffset={4}>
        {(Object.keys(COLUMN_WORDS) as (keyof Columns)[]).map((name) => (
          <DropdownMenu.CheckboxItem
            key={name}
            className="menuitem"
            checked={columns[name]}
            onCheckedChange={() => toggle(name)}
            onSelect={(event) => event.preventDefault()}
          >
            <span className="menucheck" aria-hidden="true">
              {columns[name] ? "✓" : ""}
            </span>
            {COLUMN_WORDS[name]}
          </DropdownMenu.CheckboxItem>
        ))}
      </DropdownMenu.Content>
    </DropdownMenu.Root>
  );
}

function StaleBanner() {
  const since = useLive((stream) => stream.since);
  const now = useNow();
  return (
    <div className="banner st-running" role="status">
      <Unplug className="i" aria-hidden="true" />
      <span className="grow">
        The server does not answer. These rows are{" "}
        <b>{duration(Math.floor(Math.max(now - since, 0) / 1000) * 1000)} old</b>. The list updates by itself
        once it is back; nothing is missed.
      </span>
      <button type="button" className="btn sm" onClick={() => live.retry()}>
        Try now
      </button>
    </div>
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

/** "No failed order run in the last 24h", from the filters. */
function nothing(filters: RunFilters): string {
  const status = filters.status.map((each) => statusWord(each).toLowerCase()).join(" or ");
  const rest = Object.keys(writeFilters({ ...filters, status: [], workflow: "", since: "" })).length;
  return [
    "No",
    status,
    filters.workflow,
    "run",
    rest ? "matches these filters" : /^\d+\w$/.test(filters.since) ? `in the last ${filters.since}` : "here",
  ]
    .filter(Boolean)
    .join(" ");
}

function NoRuns({ filters, clear }: { filters: RunFilters; clear: () => void }) {
  const { total } = useCounts();
  if (Object.keys(writeFilters(filters)).length) {
    return (
      <EmptyState
        icon={<Inbox className="i l" aria-hidden="true" />}
        title={nothing(filters)}
        action={
          <button type="button" className="btn" onClick={clear}>
            Clear the filters
          </button>
        }
      >
        {total === undefined ? "" : `${total.toLocaleString("en")} runs without filters.`}
      </EmptyState>
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
      Runs appear here as soon as they are accepted, no matter how they are started.
    </EmptyState>
  );
}
