import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ArrowLeft, Plus, SearchX, Table2 } from "lucide-react";
import { type FormEvent, useState } from "react";
import { ApiProblem, type Schemas } from "../../api/client";
import { collectionQuery, recordsQuery } from "../../api/queries";
import { EmptyState } from "../../components/EmptyState";
import { Skeleton } from "../../components/Skeleton";
import { Ago } from "../../components/Time";
import { usePageTitle } from "../../components/usePageTitle";
import { RecordPanel } from "./RecordPanel";

type Collection = Schemas["CollectionView"];
type Stored = Schemas["RecordView"];

/** A collection: its records, found by an indexed field, and one of them beside the list. */
export function CollectionPage() {
  const { collection = "" } = useParams({ strict: false });
  const search = useSearch({ strict: false }) as Record<string, string | undefined>;
  const navigate = useNavigate();
  const where = search.where ?? "";
  const info = useQuery(collectionQuery(collection));
  const records = useInfiniteQuery(recordsQuery(collection, where));
  usePageTitle(`${collection} · Records`);
  const go = (change: Record<string, string | undefined>) =>
    void navigate({
      to: "/records/$collection",
      params: { collection },
      search: { ...search, ...change } as never,
      replace: true,
    });
  if (info.error instanceof ApiProblem && info.error.status === 404) {
    return (
      <main className="main" id="main">
        <EmptyState
          whole
          icon={<SearchX className="i l" aria-hidden="true" />}
          title={`No collection ${collection} here`}
          action={
            <Link className="btn" to="/records">
              All collections
            </Link>
          }
        >
          It may have another name, or be in another workspace.
        </EmptyState>
      </main>
    );
  }
  if (info.error && !info.data) throw info.error;
  if (!info.data) return <main className="main" id="main" aria-busy="true" />;
  const rows = records.data?.pages.flatMap((page) => page.records) ?? [];
  const fields = [info.data.key, ...info.data.find].filter(Boolean);
  const open = search.record ?? "";
  return (
    <main className="main" id="main">
      <div className={open ? "schg" : "schg one"}>
        <div className="schl">
          <div className="pagehead">
            <Link className="back" to="/records" aria-label="Back to Records">
              <ArrowLeft className="i s" aria-hidden="true" />
              <span>Records</span>
            </Link>
            <h1 className="mono">{collection}</h1>
            <span className="xs t3">{info.data.records.toLocaleString("en")}</span>
            <span className="grow" />
            <button type="button" className="btn primary" onClick={() => go({ record: "new" })}>
              <Plus className="i" aria-hidden="true" />
              New record
            </button>
          </div>
          {fields.length > 0 && (
            <FindForm
              key={where}
              fields={fields}
              collection={info.data}
              where={where}
              find={(each) => go({ where: each || undefined, record: undefined })}
            />
          )}
          {records.error && (
            <p className="errline" role="alert">
              {records.error.message}
            </p>
          )}
          {rows.length > 0 && (
            <Table rows={rows} fields={fields} open={open} choose={(id) => go({ record: id })} />
          )}
          {records.hasNextPage && (
            <p className="tfoot">
              <button
                type="button"
                className="btn sm"
                disabled={records.isFetchingNextPage}
                onClick={() => void records.fetchNextPage()}
              >
                Show more
              </button>
            </p>
          )}
          {records.isPending && <Skeleton rows={4} />}
          {records.data && !rows.length && (
            <EmptyState
              icon={<Table2 className="i l" aria-hidden="true" />}
              title={where ? "No record matches" : "No records yet"}
            >
              {where ? "Search for another value, or show all." : "Steps, nodes and people create records."}
            </EmptyState>
          )}
        </div>
        {open && (
          <RecordPanel
            key={open}
            collection={info.data}
            id={open}
            choose={(id) => go({ record: id })}
            close={() => go({ record: undefined })}
          />
        )}
      </div>
    </main>
  );
}

function Table(props: { rows: Stored[]; fields: string[]; open: string; choose: (id: string) => void }) {
  return (
    <table className="table sct found">
      <thead>
        <tr>
          <th scope="col">Record</th>
          {props.fields.map((field) => (
            <th key={field} scope="col" className="mono">
              {field}
            </th>
          ))}
          <th scope="col" className="num hide-s">
            Version
          </th>
          <th scope="col" className="hide-s">
            Changed
          </th>
        </tr>
      </thead>
      <tbody>
        {props.rows.map((row) => (
          <tr key={row.id} className={row.id === props.open ? "cur" : undefined}>
            <td>
              <button
                type="button"
                className="linkbtn link mono"
                aria-current={row.id === props.open ? "true" : undefined}
                onClick={() => props.choose(row.id)}
              >
                {row.id.length > 20 ? row.id.slice(-8) : row.id}
              </button>
            </td>
            {props.fields.map((field) => (
              <td key={field}>{shown(row.data[field])}</td>
            ))}
            <td className="num t2 hide-s">{row.version}</td>
            <td className="t2 hide-s">
              <Ago at={Date.parse(row.updated_at)} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Find by one indexed field. A text that is JSON of the field's type is taken as that, else as text. */
function FindForm(props: {
  fields: string[];
  collection: Collection;
  where: string;
  find: (where: string) => void;
}) {
  const [field = props.fields[0] ?? "", value = ""] = asked(props.where);
  const [chosen, setChosen] = useState(field);
  const [text, setText] = useState(value);
  const submitted = (event: FormEvent) => {
    event.preventDefault();
    props.find(text ? JSON.stringify({ [chosen]: typed(text, props.collection, chosen) }) : "");
  };
  return (
    <form className="row wrap findform" role="search" onSubmit={submitted}>
      <select
        className="input"
        aria-label="Find by"
        value={chosen}
        onChange={(event) => setChosen(event.target.value)}
      >
        {props.fields.map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
      <input
        className="input mono"
        data-filter
        aria-label="Value"
        autoComplete="off"
        placeholder="is"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <button type="submit" className="btn">
        Find
      </button>
      {props.where && (
        <button type="button" className="btn" onClick={() => props.find("")}>
          Show all
        </button>
      )}
    </form>
  );
}

function asked(where: string): [string?, string?] {
  try {
    const [found] = Object.entries(JSON.parse(where) as Record<string, unknown>);
    return found ? [found[0], shown(found[1])] : [];
  } catch {
    return [];
  }
}

function typed(text: string, collection: Collection, field: string): unknown {
  const schema = collection.schema as { properties?: Record<string, { type?: string }> } | null;
  if (schema?.properties?.[field]?.type === "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function shown(value: unknown): string {
  return value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
}
