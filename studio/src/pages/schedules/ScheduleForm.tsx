import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useId, useState } from "react";
import { api, ask } from "../../api/client";
import { workflowsQuery } from "../../api/queries";
import { ChoiceField } from "../../components/Field";
import { SidePanel } from "../../components/SidePanel";
import { duration, instant } from "../../domain/time";

const OVERLAP = [
  ["queue", "Wait"],
  ["skip", "Skip"],
  ["allow", "Run both"],
] as const;
const MISSED = [
  ["one", "Run once"],
  ["skip", "Skip"],
  ["all", "Run last 100"],
] as const;
const TYPING = 300; // milliseconds without a key before the times are asked for

/** A new schedule. The server says in words when it would be due, with the next five times. */
export function ScheduleForm({ close }: { close: () => void }) {
  const workflows = useQuery(workflowsQuery);
  const queries = useQueryClient();
  const id = useId();
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const [workflow, setWorkflow] = useState("");
  const [name, setName] = useState("");
  const [when, setWhen] = useState("0 2 * * *");
  const [timezone, setTimezone] = useState(here);
  const [overlap, setOverlap] = useState("queue");
  const [missed, setMissed] = useState("one");
  const [input, setInput] = useState("");
  const [problem, setProblem] = useState("");
  const spec = useSettled({ ...readWhen(when), timezone }, TYPING);
  const preview = useQuery({
    queryKey: ["schedule-preview", spec],
    queryFn: ({ signal }) => ask(api.POST("/api/v1/schedules/preview", { body: spec as never, signal })),
    retry: false,
    placeholderData: (before) => before,
  });
  const names = (workflows.data?.workflows ?? []).map((each) => each.name);
  const chosen = workflow || (names[0] ?? "");
  const create = async (event: FormEvent) => {
    event.preventDefault();
    setProblem("");
    const body: Record<string, unknown> = {
      name: name.trim() || chosen,
      workflow: chosen,
      ...readWhen(when),
      timezone,
      overlap,
      missed,
    };
    try {
      if (input.trim()) body.input = JSON.parse(input);
    } catch {
      setProblem("The input is not valid JSON. Put text in double quotes.");
      return;
    }
    try {
      await ask(api.POST("/api/v1/schedules", { body: body as never }));
      await queries.invalidateQueries({ queryKey: ["schedules"] });
      close();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <SidePanel title="New schedule" close={close}>
      <form className="sec col" onSubmit={create} noValidate>
        <div className="field">
          <label htmlFor={`${id}-workflow`}>Workflow</label>
          <select
            id={`${id}-workflow`}
            className="input"
            value={chosen}
            onChange={(event) => setWorkflow(event.target.value)}
          >
            {names.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </div>
        <div className="field">
          <label htmlFor={`${id}-name`}>Name</label>
          <input
            id={`${id}-name`}
            className="input mono"
            autoComplete="off"
            placeholder={chosen}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </div>
        <div className="field">
          <label htmlFor={`${id}-when`}>When</label>
          <input
            id={`${id}-when`}
            className="input mono"
            autoComplete="off"
            value={when}
            aria-describedby={`${id}-words`}
            aria-invalid={preview.isError}
            onChange={(event) => setWhen(event.target.value)}
          />
          <span className={preview.isError ? "errline" : "help"} id={`${id}-words`} role="status">
            {preview.isError ? preview.error.message : (preview.data?.words ?? "")}
          </span>
          <span className="help">Cron with five fields, or an interval: every 15m</span>
        </div>
        <div className="field">
          <label htmlFor={`${id}-zone`}>Time zone</label>
          <input
            id={`${id}-zone`}
            className="input"
            list={`${id}-zones`}
            value={timezone}
            onChange={(event) => setTimezone(event.target.value)}
          />
          <datalist id={`${id}-zones`}>
            {zones().map((each) => (
              <option key={each} value={each} />
            ))}
          </datalist>
        </div>
        <div className="row g3">
          <ChoiceField label="Overlap" value={overlap} set={setOverlap} of={OVERLAP} />
          <ChoiceField label="Missed slots" value={missed} set={setMissed} of={MISSED} />
        </div>
        <div className="field">
          <label htmlFor={`${id}-input`}>
            Input <span className="t3">JSON, optional</span>
          </label>
          <textarea
            id={`${id}-input`}
            className="input mono"
            rows={3}
            value={input}
            placeholder={'{"day": "{{trigger.date}}"}'}
            onChange={(event) => setInput(event.target.value)}
          />
        </div>
        <Times times={preview.isError ? [] : (preview.data?.times ?? [])} zone={spec.timezone} />
        {problem && (
          <p className="errline" role="alert">
            {problem}
          </p>
        )}
        <div className="row">
          <button type="submit" className="btn primary" disabled={!chosen}>
            Create
          </button>
        </div>
      </form>
    </SidePanel>
  );
}

function Times({ times, zone }: { times: string[]; zone: string }) {
  if (!times.length) return null;
  const first = instant(times[0]) ?? 0;
  return (
    <div>
      <h3 className="h3">Next five</h3>
      <ol className="fires">
        {times.map((time, at) => (
          <li key={time}>
            <time className="mono xs" dateTime={time}>
              {wall(time, zone)}
            </time>
            <span className="xs t3">{at === 0 ? `in ${duration(Math.max(0, first - Date.now()))}` : ""}</span>
          </li>
        ))}
      </ol>
    </div>
  );
}

/** "every 15m" is an interval, anything else is cron. */
function readWhen(text: string): { cron: string } | { every: string } {
  const interval = /^\s*every\s+(.+)$/i.exec(text);
  return interval?.[1] ? { every: interval[1].trim() } : { cron: text.trim() };
}

/** A time as the clock on the wall of that zone shows it. */
function wall(time: string, zone: string): string {
  const shown = {
    weekday: "short",
    day: "numeric",
    month: "short",
    hour: "2-digit",
    minute: "2-digit",
  } as const;
  const date = new Date(time);
  try {
    return new Intl.DateTimeFormat("en-GB", { ...shown, timeZone: zone }).format(date).replaceAll(",", "");
  } catch {
    return new Intl.DateTimeFormat("en-GB", shown).format(date).replaceAll(",", "");
  }
}

function zones(): string[] {
  return Intl.supportedValuesOf("timeZone");
}

/** The value, once it has not changed for that long. */
function useSettled<T>(value: T, wait: number): T {
  const text = JSON.stringify(value);
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(text), wait);
    return () => window.clearTimeout(timer);
  }, [text, wait]);
  return JSON.parse(settled) as T;
}
