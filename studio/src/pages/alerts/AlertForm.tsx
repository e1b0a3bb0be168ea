import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, ask } from "../../api/client";
import { workflowsQuery } from "../../api/queries";
import { ChoiceField, TextField } from "../../components/Field";
import { SidePanel } from "../../components/SidePanel";

const WHAT = [
  ["failed", "Failed runs"],
  ["stuck", "Stuck runs"],
  ["overdue", "Overdue runs"],
  ["no_worker", "Queue without a worker"],
  ["full_queue", "Full queue"],
] as const;
const AFTER: Record<string, string> = {
  failed: "15m",
  stuck: "10m",
  overdue: "1h",
  no_worker: "1m",
  full_queue: "0s",
};

/** A new alert. */
export function AlertForm({ close }: { close: () => void }) {
  const workflows = useQuery(workflowsQuery).data?.workflows ?? [];
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [what, setWhat] = useState("failed");
  const [workflow, setWorkflow] = useState("");
  const [queue, setQueue] = useState("default");
  const [after, setAfter] = useState("");
  const [least, setLeast] = useState("");
  const [channel, setChannel] = useState("");
  const [to, setTo] = useState("");
  const [repeat, setRepeat] = useState("4h");
  const [problem, setProblem] = useState("");
  const ofQueue = what === "no_worker" || what === "full_queue";
  const create = async (submitted: FormEvent) => {
    submitted.preventDefault();
    if (!name.trim()) return setProblem("Name the alert.");
    if (least && !/^\d+$/.test(least)) return setProblem("Enter a whole number of runs.");
    setProblem("");
    const body = {
      what,
      ...(ofQueue ? { queue: queue.trim() } : { workflow: workflow.trim() }),
      ...(after.trim() ? { after: after.trim() } : {}),
      ...(least ? { at_least: Number(least) } : {}),
      channel: channel.trim(),
      to: to
        .split(",")
        .map((each) => each.trim())
        .filter(Boolean),
      ...(repeat.trim() ? { repeat: repeat.trim() } : {}),
    };
    try {
      const at = { params: { path: { alert_name: name.trim() } }, body: body as never };
      await ask(api.PUT("/api/v1/alerts/{alert_name}", at));
      await queries.invalidateQueries({ queryKey: ["alerts"] });
      close();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <SidePanel title="New alert" close={close}>
      <form className="sec col" onSubmit={create} noValidate>
        <TextField label="Name" value={name} set={setName} placeholder="failures" mono />
        <ChoiceField label="Condition" value={what} set={setWhat} of={WHAT} />
        {ofQueue ? (
          <TextField label="Queue" value={queue} set={setQueue} mono />
        ) : (
          <TextField
            label="Workflow"
            value={workflow}
            set={setWorkflow}
            options={workflows.map((each) => each.name)}
            help="Leave empty to check each workflow on its own."
            mono
          />
        )}
        {what !== "no_worker" && (
          <TextField label="Minimum number of runs" value={least} set={setLeast} placeholder="1" />
        )}
        <TextField
          label={what === "failed" ? "Within the last" : "For at least"}
          value={after}
          set={setAfter}
          placeholder={AFTER[what] ?? ""}
          mono
        />
        <TextField
          label="Channel"
          value={channel}
          set={setChannel}
          placeholder="ops"
          help="A mail server or webhook that the operator named. Leave empty to report in metrics only."
          mono
        />
        <TextField label="Recipients" value={to} set={setTo} placeholder="ann@example.com" />
        <TextField label="Repeat every" value={repeat} set={setRepeat} mono />
        {problem && (
          <p className="errline" role="alert">
            {problem}
          </p>
        )}
        <div className="row">
          <button type="submit" className="btn primary">
            Create
          </button>
        </div>
      </form>
    </SidePanel>
  );
}
