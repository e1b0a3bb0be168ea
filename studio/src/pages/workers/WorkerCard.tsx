import { Link } from "@tanstack/react-router";
import type { Run, Schemas } from "../../api/client";
import { Glyph } from "../../components/Glyph";
import { Ago } from "../../components/Time";
import { instant } from "../../domain/time";
import { where } from "../../domain/where";
import { version } from "../runs/RunRow";

type Worker = Schemas["WorkerView"];

const SHOWN = 12;

/** One worker: whether it lives, what it does, which code it has, and the button to drain it. */
export function WorkerCard(props: { worker: Worker; runs: Run[]; drain: () => void }) {
  const { worker, runs, drain } = props;
  const name = worker.name || worker.id;
  const until = instant(worker.lease_until);
  const code = codeOf(worker.workflows);
  return (
    <article className="wcard" aria-label={`Worker ${name}`}>
      <div className="row">
        <Glyph status={worker.alive ? "completed" : "timed_out"} />
        <b className="mono">{name}</b>
        <State worker={worker} />
        <span className="grow" />
        {!worker.draining && (
          <button type="button" className="btn sm" aria-label={`Drain ${name}…`} onClick={drain}>
            Drain…
          </button>
        )}
      </div>
      <div className="row g4 xs t2 wrap">
        <span>
          {worker.queues.length === 1 ? "queue" : "queues"} {worker.queues.join(", ") || "none"}
        </span>
        {until !== null && !worker.alive && (
          <span className="t3">
            its lease ended <Ago at={until} />; its runs go to others
          </span>
        )}
      </div>
      {worker.draining && (
        <p className="xs t2">
          {worker.draining.by || "Somebody"} asked it to stop
          {worker.draining.reason && `: ${worker.draining.reason}`}. It takes nothing new and lets its steps
          end.
        </p>
      )}
      {worker.alive && (
        <ul className="doing mono xxs" aria-label="Runs it has now">
          {runs.slice(0, SHOWN).map((run) => (
            <li className="clip" key={run.id}>
              <Link className="link" to="/runs/$id" params={{ id: run.id }}>
                {run.key || run.id.slice(-8)}
              </Link>{" "}
              <span className="t2">{where(run).place || run.workflow}</span>
            </li>
          ))}
          {runs.length > SHOWN && <li className="t3">and {runs.length - SHOWN} more</li>}
          {!runs.length && <li className="t3">nothing now</li>}
        </ul>
      )}
      <details className="xs t2 hascode">
        <summary>
          {code.length} {code.length === 1 ? "workflow" : "workflows"}
        </summary>
        <ul className="doing mono xxs t2" aria-label="Workflows it has">
          {code.slice(0, SHOWN).map(([workflow, versions]) => (
            <li className="clip" key={workflow}>
              {workflow} <span className="t3">{versions.map(version).join(", ")}</span>
            </li>
          ))}
          {code.length > SHOWN && <li className="t3">and {code.length - SHOWN} more</li>}
          {!code.length && <li className="t3">no workflows</li>}
        </ul>
      </details>
    </article>
  );
}

function State({ worker }: { worker: Worker }) {
  if (!worker.alive) return <span className="tag st st-failed">silent</span>;
  if (worker.draining || worker.leaving) return <span className="tag st st-running">draining</span>;
  return <span className="tag">live</span>;
}

/** "fulfil@1", "fulfil@2" as one line: fulfil, v1 and v2. */
function codeOf(workflows: string[]): [string, string[]][] {
  const versions = new Map<string, string[]>();
  for (const each of workflows) {
    const at = each.lastIndexOf("@");
    const name = each.slice(0, at);
    versions.set(name, [...(versions.get(name) ?? []), each.slice(at + 1)]);
  }
  return [...versions];
}
