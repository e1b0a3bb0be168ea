import { type FormEvent, useId, useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { Dialog } from "../../components/Dialog";

/** Start the runs of past slots that have none. */
export function BackfillDialog(props: { schedule: Schemas["ScheduleView"]; close: () => void }) {
  const { schedule, close } = props;
  const [since, setSince] = useState("");
  const [until, setUntil] = useState("");
  const [told, setTold] = useState("");
  const [problem, setProblem] = useState("");
  const id = useId();
  const fill = async (event: FormEvent) => {
    event.preventDefault();
    setProblem("");
    setTold("");
    if (!since || !until) {
      setProblem("Enter both times.");
      return;
    }
    try {
      const body = { since: new Date(since).toISOString(), until: new Date(until).toISOString() } as never;
      const path = { name: schedule.name };
      const done = await ask(api.POST("/api/v1/schedules/{name}/backfill", { params: { path }, body }));
      setTold(`${done.started} of ${done.slots} slots started a run. The others already had one.`);
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  const fields = [
    ["From", since, setSince],
    ["Until", until, setUntil],
  ] as const;
  return (
    <Dialog label={`Backfill ${schedule.name}`} className="rdlg small" close={close}>
      <div className="shead">
        <h2>
          Backfill <code>{schedule.name}</code>
        </h2>
      </div>
      <form className="rbody apform" onSubmit={fill} noValidate>
        <p className="t2">Starts a run for each slot of this range that has none, at most 1,000.</p>
        {fields.map(([label, value, set]) => (
          <div className="field" key={label}>
            <label htmlFor={`${id}-${label}`}>{label}</label>
            <input
              id={`${id}-${label}`}
              className="input"
              type="datetime-local"
              value={value}
              onChange={(event) => set(event.target.value)}
            />
          </div>
        ))}
        {problem && (
          <p className="errline" role="alert">
            {problem}
          </p>
        )}
        {told && (
          <p className="t2" role="status">
            {told}
          </p>
        )}
        <div className="row apbtns">
          <button type="submit" className="btn primary">
            Start runs
          </button>
          <button type="button" className="btn" onClick={close}>
            Close
          </button>
        </div>
      </form>
    </Dialog>
  );
}
