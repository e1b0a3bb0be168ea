import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, ask } from "../../api/client";
import { TextField } from "../../components/Field";
import { JsonField, useJson } from "../../components/JsonField";
import { SidePanel } from "../../components/SidePanel";

/** A new collection: its schema, the field that no two records share, and what they are found by. */
export function CollectionForm({ close }: { close: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [key, setKey] = useState("");
  const [find, setFind] = useState("");
  const schema = useJson({ type: "object", properties: {} });
  const [problem, setProblem] = useState("");
  const create = async (submitted: FormEvent) => {
    submitted.preventDefault();
    if (!name.trim()) return setProblem("Name the collection.");
    setProblem("");
    const fields = find.split(",").map((each) => each.trim());
    const body = { schema: schema.value, key: key.trim(), find: fields.filter(Boolean), new: true };
    try {
      const at = { params: { path: { collection: name.trim() } }, body: body as never };
      await ask(api.PUT("/api/v1/records/{collection}", at));
      await queries.invalidateQueries({ queryKey: ["records"] });
      close();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <SidePanel title="New collection" close={close}>
      <form className="sec col" onSubmit={create} noValidate>
        <TextField label="Name" value={name} set={setName} placeholder="customers" mono />
        <TextField
          label="Key"
          value={key}
          set={setKey}
          placeholder="email"
          help="A field whose value is unique to each record."
          mono
        />
        <TextField label="Indexed fields" value={find} set={setFind} placeholder="city, plan" mono />
        <JsonField label="JSON Schema" json={schema} rows={9} />
        {problem && (
          <p className="errline" role="alert">
            {problem}
          </p>
        )}
        <div className="row">
          <button type="submit" className="btn primary" disabled={schema.problem !== ""}>
            Create
          </button>
        </div>
      </form>
    </SidePanel>
  );
}
