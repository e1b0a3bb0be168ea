import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, ask } from "../../api/client";
import { workflowsQuery } from "../../api/queries";
import { ChoiceField, TextField } from "../../components/Field";
import { JsonField, useJson } from "../../components/JsonField";
import { SidePanel } from "../../components/SidePanel";

const CAUSES = [
  ["event", "Broadcast event"],
  ["source", "Source"],
] as const;

/** A new trigger, of an event or of a source. */
export function TriggerForm({ close }: { close: () => void }) {
  const workflows = useQuery(workflowsQuery);
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [workflow, setWorkflow] = useState("");
  const [cause, setCause] = useState("event");
  const [event, setEvent] = useState("");
  const [key, setKey] = useState("");
  const [condition, setCondition] = useState("");
  const [source, setSource] = useState("");
  const [every, setEvery] = useState("");
  const config = useJson({});
  const input = useJson("{{trigger.payload}}");
  const [problem, setProblem] = useState("");
  const names = (workflows.data?.workflows ?? []).map((each) => each.name);
  const chosen = workflow || (names[0] ?? "");
  const create = async (submitted: FormEvent) => {
    submitted.preventDefault();
    if (!name.trim()) return setProblem("Name the trigger.");
    if (cause === "event" && !event.trim()) return setProblem("Name the event.");
    if (cause === "source" && !source.trim()) return setProblem("Name the source.");
    setProblem("");
    const body = {
      name: name.trim(),
      workflow: chosen,
      input: input.value,
      ...(cause === "event"
        ? { event: event.trim(), key: key.trim(), condition: condition.trim() }
        : { source: source.trim(), config: config.value, ...(every.trim() ? { every: every.trim() } : {}) }),
    };
    try {
      await ask(api.POST("/api/v1/triggers", { body: body as never }));
      await queries.invalidateQueries({ queryKey: ["triggers"] });
      close();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  const unread = input.problem !== "" || (cause === "source" && config.problem !== "");
  return (
    <SidePanel title="New trigger" close={close}>
      <form className="sec col" onSubmit={create} noValidate>
        <TextField label="Name" value={name} set={setName} placeholder="ship" mono />
        <ChoiceField
          label="Workflow"
          value={chosen}
          set={setWorkflow}
          of={names.map((each) => [each, each] as const)}
        />
        <ChoiceField label="Type" value={cause} set={setCause} of={CAUSES} />
        {cause === "event" ? (
          <>
            <TextField label="Event" value={event} set={setEvent} placeholder="order.paid" mono />
            <TextField label="Key" value={key} set={setKey} help="Leave empty for any key." mono />
            <TextField
              label="Condition"
              value={condition}
              set={setCondition}
              placeholder="trigger.payload.amount > 100"
              help="Leave empty for every event."
              mono
            />
          </>
        ) : (
          <>
            <TextField
              label="Source"
              value={source}
              set={setSource}
              placeholder="inbox"
              help="A source that a program declares with @source."
              mono
            />
            <JsonField label="Configuration" json={config} rows={4} />
            <TextField label="Check every" value={every} set={setEvery} placeholder="1m" mono />
          </>
        )}
        <JsonField label="Input" note="text may use {{trigger.payload.order}}" json={input} rows={3} />
        {problem && (
          <p className="errline" role="alert">
            {problem}
          </p>
        )}
        <div className="row">
          <button type="submit" className="btn primary" disabled={!chosen || unread}>
            Create
          </button>
        </div>
      </form>
    </SidePanel>
  );
}
