import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, ask } from "../../api/client";
import { secretsQuery, workflowsQuery } from "../../api/queries";
import { ChoiceField, TextField } from "../../components/Field";
import { SidePanel } from "../../components/SidePanel";

const TARGETS = [
  ["workflow", "Start a workflow"],
  ["event", "Publish an event"],
] as const;
const SCHEMES = [
  ["standard", "Standard Webhooks signature"],
  ["hmac", "HMAC-SHA256 of the body"],
  ["bearer", "Bearer token"],
  ["basic", "Basic authentication"],
  ["none", "None"],
] as const;
const REPLIES = [
  ["accepted", "202, at once"],
  ["result", "Result of the run"],
] as const;

/** A new webhook. Its address exists once it is created. */
export function WebhookForm({ close }: { close: () => void }) {
  const workflows = useQuery(workflowsQuery);
  const secrets = useQuery({ ...secretsQuery, retry: false }); // a caller without admin types the name
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [target, setTarget] = useState("workflow");
  const [workflow, setWorkflow] = useState("");
  const [event, setEvent] = useState("");
  const [eventKey, setEventKey] = useState("");
  const [scheme, setScheme] = useState("standard");
  const [secret, setSecret] = useState("");
  const [header, setHeader] = useState("X-Hub-Signature-256");
  const [reply, setReply] = useState("accepted");
  const [problem, setProblem] = useState("");
  const names = (workflows.data?.workflows ?? []).map((each) => each.name);
  const chosen = workflow || (names[0] ?? "");
  const create = async (submitted: FormEvent) => {
    submitted.preventDefault();
    if (!name.trim()) return setProblem("Name the webhook.");
    if (target === "event" && !event.trim()) return setProblem("Name the event.");
    setProblem("");
    const body = {
      name: name.trim(),
      scheme,
      ...(target === "workflow" ? { workflow: chosen, reply } : { event: event.trim(), event_key: eventKey }),
      ...(scheme === "none" ? {} : { secret: secret.trim() }),
      ...(scheme === "hmac" ? { header: header.trim() } : {}),
    };
    try {
      await ask(api.POST("/api/v1/webhooks", { body: body as never }));
      await queries.invalidateQueries({ queryKey: ["webhooks"] });
      close();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <SidePanel title="New webhook" close={close}>
      <form className="sec col" onSubmit={create} noValidate>
        <TextField label="Name" value={name} set={setName} placeholder="refunds" mono />
        <ChoiceField label="Action" value={target} set={setTarget} of={TARGETS} />
        {target === "workflow" ? (
          <>
            <ChoiceField
              label="Workflow"
              value={chosen}
              set={setWorkflow}
              of={names.map((each) => [each, each] as const)}
            />
            <ChoiceField label="Response" value={reply} set={setReply} of={REPLIES} />
          </>
        ) : (
          <>
            <TextField label="Event" value={event} set={setEvent} placeholder="order.paid" mono />
            <TextField
              label="Event key"
              value={eventKey}
              set={setEventKey}
              placeholder="{{trigger.body.order}}"
              help="Runs that wait for this event and key continue."
              mono
            />
          </>
        )}
        <ChoiceField label="Authentication" value={scheme} set={setScheme} of={SCHEMES} />
        {scheme === "hmac" && <TextField label="Header" value={header} set={setHeader} mono />}
        {scheme !== "none" && (
          <TextField
            label="Secret"
            value={secret}
            set={setSecret}
            options={(secrets.data?.secrets ?? []).map((each) => each.name)}
            placeholder="name of a secret"
            help="Set its value under Settings, Secrets."
            mono
          />
        )}
        {scheme === "none" && <p className="help">Anyone who knows the address can use it.</p>}
        {problem && (
          <p className="errline" role="alert">
            {problem}
          </p>
        )}
        <div className="row">
          <button type="submit" className="btn primary" disabled={target === "workflow" && !chosen}>
            Create
          </button>
        </div>
      </form>
    </SidePanel>
  );
}
