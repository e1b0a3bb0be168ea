import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Plus, Table2, Trash2 } from "lucide-react";
import { useEffect, useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { collectionsQuery } from "../../api/queries";
import { Command, EmptyState } from "../../components/EmptyState";
import { FormDialog } from "../../components/FormDialog";
import { Skeleton } from "../../components/Skeleton";
import { Ago } from "../../components/Time";
import { useChange } from "../../components/useChange";
import { CollectionForm } from "./CollectionForm";

type Collection = Schemas["CollectionView"];

/** Collections of records: what workflows keep beside their runs. */
export function CollectionsPage() {
  const collections = useQuery({ ...collectionsQuery, refetchInterval: 10_000 });
  const { problem, change } = useChange(collectionsQuery.queryKey);
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Collection | null>(null);
  useEffect(() => {
    document.title = "Records · Stepwell Studio";
  }, []);
  if (collections.error && !collections.data) throw collections.error;
  const rows = collections.data?.collections ?? [];
  return (
    <main className="main" id="main">
      <div className={adding ? "schg" : "schg one"}>
        <div className="schl">
          <div className="pagehead">
            <h1>Records</h1>
            <span className="xs t3">{rows.length || ""}</span>
            <span className="grow" />
            <button type="button" className="btn primary" onClick={() => setAdding(true)}>
              <Plus className="i" aria-hidden="true" />
              New collection
            </button>
          </div>
          {problem && (
            <p className="errline" role="alert">
              {problem}
            </p>
          )}
          {rows.length > 0 && (
            <table className="table sct">
              <thead>
                <tr>
                  <th scope="col">Collection</th>
                  <th scope="col" className="num">
                    Records
                  </th>
                  <th scope="col" className="hide-s">
                    {" "}
                    Indexed fields{" "}
                  </th>
                  <th scope="col" className="hide-s">
                    Definition
                  </th>
                  <th scope="col" className="num">
                    <span className="sr">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {rows.map((row) => (
                  <tr key={row.name}>
                    <td>
                      <Link
                        className="link mono med"
                        to="/records/$collection"
                        params={{ collection: row.name }}
                      >
                        {row.name}
                      </Link>
                    </td>
                    <td className="num">{row.records.toLocaleString("en")}</td>
                    <td className="t2 hide-s">
                      <span className="mono xs">{[row.key, ...row.find].filter(Boolean).join(", ")}</span>
                      {!row.key && !row.find.length && "their id"}
                    </td>
                    <td className="t2 hide-s">
                      version {row.version}, <Ago at={Date.parse(row.updated_at)} />
                      {row.updated_by && ` by ${row.updated_by}`}
                    </td>
                    <td className="num">
                      <button
                        type="button"
                        className="iconbtn sm"
                        title="Delete"
                        aria-label={`Delete ${row.name}…`}
                        onClick={() => setRemoving(row)}
                      >
                        <Trash2 className="i" aria-hidden="true" />
                      </button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
          {collections.isPending && <Skeleton rows={4} />}
          {collections.data && !rows.length && (
            <EmptyState
              icon={<Table2 className="i l" aria-hidden="true" />}
              title="No collections yet"
              action={<Command text="stepwell records define customers --key email" />}
            >
              A collection holds records of one JSON Schema. Steps and nodes create, find and change them,
              each change exactly once.
            </EmptyState>
          )}
        </div>
        {adding && <CollectionForm close={() => setAdding(false)} />}
      </div>
      {removing && (
        <FormDialog
          title={`Delete ${removing.name}?`}
          lead={
            removing.records
              ? `Its ${removing.records.toLocaleString("en")} records are deleted with it. This cannot be undone.`
              : "It has no records."
          }
          close={() => setRemoving(null)}
          keep="Keep it"
          word={removing.records ? "Delete with its records" : "Delete collection"}
          danger
          act={() => {
            setRemoving(null);
            const query = removing.records ? { with_records: true } : {};
            const at = { params: { path: { collection: removing.name }, query } };
            void change(() => ask(api.DELETE("/api/v1/records/{collection}", at)));
          }}
        />
      )}
    </main>
  );
}
