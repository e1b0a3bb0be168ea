import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { TextField } from "../../components/Field";
import { FormDialog } from "../../components/FormDialog";
import { JsonField, useJson } from "../../components/JsonField";

/** Publish the event that a trigger waits for. */
export function PublishDialog({ trigger, close }: { trigger: Schemas["TriggerView"]; close: () => void }) {
  const queries = useQueryClient();
  const payload = useJson({});
  const [key, setKey] = useState(trigger.key);
  const [problem, setProblem] = useState("");
  const publish = async () => {
    try {
      const body = { name: trigger.event, key: key.trim(), payload: payload.value };
      await ask(api.POST("/api/v1/events", { body: body as never }));
      await queries.invalidateQueries({ queryKey: ["triggers"] });
      close();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <FormDialog
      title={`Publish ${trigger.event}`}
      lead="Each trigger of this event starts a run, and runs that wait for it continue."
      close={close}
      keep="Close"
      word="Publish"
      ready={payload.problem === ""}
      problem={problem}
      act={() => void publish()}
    >
      <TextField
        label="Key"
        value={key}
        set={setKey}
        help="Only triggers and waits with this key receive it."
        mono
      />
      <JsonField label="Payload" json={payload} rows={5} />
    </FormDialog>
  );
}
