import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Table2, Trash2 } from "lucide-react";
import { useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { collectionsQuery } from "../../api/queries";
import { DeleteDialog } from "../../components/DeleteDialog";
import { Command, EmptyState } from "../../components/EmptyState";
import { IconButton } from "../../components/IconButton";
import { ListPage } from "../../components/ListPage";
import { Ago } from "../../components/Time";
import { useChange } from "../../components/useChange";
import { CollectionForm } from "./CollectionForm";

type Collection = Schemas["CollectionView"];

/** Collections of records: what workflows keep beside their runs. */
export function CollectionsPage() {
  const collections = useQuery({ ...collectionsQuery, refetchInterval: 10_000 });
  const { problem, change } = useChange(collectionsQuery.queryKey);
  const [removing, setRemoving] = useState<Collection | null>(null);
  const rows = collections.data?.collections ?? [];
  return (
    <ListPage
      title="Records"
      list={collections}
      count={rows.length}
      problem={problem}
      add="New collection"
      form={(close) => <CollectionForm close={close} />}
      empty={
        <EmptyState
          icon={<Table2 className="i l" aria-hidden="true" />}
          title="No collections yet"
          action={<Command text="stepwell records define customers --key email" />}
        >
          A collection holds records of one JSON Schema. Steps and nodes create, find and change them, each
          change exactly once.
        </EmptyState>
      }
      dialogs={
        removing && (
          <DeleteDialog
            name={removing.name}
            lead={
              removing.records
                ? `Its ${removing.records.toLocaleString("en")} records are deleted with it. This cannot be undone.`
                : "It has no records."
            }
            word={removing.records ? "Delete with its records" : "Delete collection"}
            close={() => setRemoving(null)}
            remove={() => {
              const query = removing.records ? { with_records: true } : {};
              const at = { params: { path: { collection: removing.name }, query } };
              void change(() => ask(api.DELETE("/api/v1/records/{collection}", at)));
            }}
          />
        )
      }
    >
      <table className="table sct">
        <thead>
          <tr>
            <th scope="col">Collection</th>
            <th scope="col" className="num">
              Records
            </th>
            <th scope="col" className="hide-s">
              Indexed fields
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
                <Link className="link mono med" to="/records/$collection" params={{ collection: row.name }}>
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
                <IconButton
                  icon={Trash2}
                  title="Delete"
                  label={`Delete ${row.name}…`}
                  act={() => setRemoving(row)}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </ListPage>
  );
}
