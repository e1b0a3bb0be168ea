import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiProblem, api, ask, type Schemas } from "../../api/client";
import { recordQuery } from "../../api/queries";
import { FormDialog } from "../../components/FormDialog";
import { JsonField, useJson } from "../../components/JsonField";
import { SidePanel } from "../../components/SidePanel";
import { Skeleton } from "../../components/Skeleton";
import { Ago } from "../../components/Time";

type Collection = Schemas["CollectionView"];
type Stored = Schemas["RecordView"];

interface PanelProps {
  collection: Collection;
  id: string; // "new": one that is not there yet
  choose: (id: string) => void;
  close: () => void;
}

/** A record with its version, or a new one. */
export function RecordPanel(props: PanelProps) {
  const isNew = props.id === "new";
  const record = useQuery({ ...recordQuery(props.collection.name, props.id), enabled: !isNew });
  if (isNew) {
    return (
      <SidePanel title="New record" close={props.close}>
        <RecordForm {...props} record={null} />
      </SidePanel>
    );
  }
  return (
    <SidePanel title={`Record ${props.id.slice(-8)}`} close={props.close}>
      {record.isPending && <Skeleton rows={3} />}
      {record.error && (
        <p className="errline sec" role="alert">
          {record.error.message}
        </p>
      )}
      {record.data && <RecordForm {...props} record={record.data} />}
    </SidePanel>
  );
}

function RecordForm({ collection, record, choose, close }: PanelProps & { record: Stored | null }) {
  const queries = useQueryClient();
  const [base, setBase] = useState(record);
  const data = useJson(record?.data ?? {});
  const [problem, setProblem] = useState("");
  const [removing, setRemoving] = useState(false);
  const [drawn, setDrawn] = useState(0); // an editor keeps the text that it was given first
  const outdated = record !== null && base !== null && record.version !== base.version;
  const refresh = () => queries.invalidateQueries({ queryKey: ["records"] });
  const path = { collection: collection.name, record_id: record?.id ?? "" };
  const header = { "If-Match": `"${base?.version ?? 0}"` };
  const act = async (call: () => Promise<Stored | null>) => {
    setProblem("");
    try {
      const saved = await call();
      if (saved === null) {
        queries.removeQueries({ queryKey: recordQuery(collection.name, path.record_id).queryKey });
        close();
      }
      await refresh();
      if (saved === null) return;
      if (record === null) choose(saved.id);
      else setBase(saved);
    } catch (error) {
      const hint = error instanceof ApiProblem && error.hint ? `. ${error.hint}` : "";
      setProblem(`${(error as Error).message}${hint}`);
      void refresh();
    }
  };
  const save = () =>
    act(() =>
      record === null
        ? ask(
            api.POST("/api/v1/records/{collection}/items", {
              params: { path: { collection: collection.name } },
              body: { data: data.value } as never,
            }),
          )
        : ask(
            api.PUT("/api/v1/records/{collection}/items/{record_id}", {
              params: { path, header },
              body: { data: data.value } as never,
            }),
          ),
    );
  const remove = () => {
    setRemoving(false);
    void act(async () => {
      await ask(api.DELETE("/api/v1/records/{collection}/items/{record_id}", { params: { path, header } }));
      return null;
    });
  };
  return (
    <>
      <form
        className="sec col"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        {record && (
          <dl className="facts">
            <dt>Id</dt>
            <dd className="mono cutany">{record.id}</dd>
            <dt>Version</dt>
            <dd>{record.version}</dd>
            <dt>Created</dt>
            <dd>
              <Ago at={Date.parse(record.created_at)} />
            </dd>
            <dt>Changed</dt>
            <dd>
              <Ago at={Date.parse(record.updated_at)} />
            </dd>
          </dl>
        )}
        {outdated && (
          <p className="note2 t2" role="status">
            Someone else changed this record: version {record.version}.{" "}
            <button
              type="button"
              className="linkbtn link"
              onClick={() => {
                setBase(record);
                data.setText(JSON.stringify(record.data, null, 2));
                setDrawn(drawn + 1);
                setProblem("");
              }}
            >
              Show the change
            </button>
          </p>
        )}
        <JsonField key={drawn} label="Data" json={data} rows={10} />
        {problem && (
          <p className="errline" role="alert">
            {problem}
          </p>
        )}
        <div className="row">
          <button type="submit" className="btn primary" disabled={data.problem !== ""}>
            {record ? "Save" : "Create"}
          </button>
          <span className="grow" />
          {record && (
            <button type="button" className="btn" onClick={() => setRemoving(true)}>
              Delete…
            </button>
          )}
        </div>
      </form>
      {removing && (
        <FormDialog
          title="Delete this record?"
          lead="This cannot be undone. Runs that have read it keep the values they read."
          close={() => setRemoving(false)}
          keep="Keep it"
          word="Delete record"
          danger
          act={remove}
        />
      )}
    </>
  );
}
