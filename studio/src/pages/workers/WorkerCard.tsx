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
            its lease expired <Ago at={until} />; other workers take over its runs
          </span>
        )}
      </div>
      {worker.draining && (
        <p className="xs t2">
          {worker.draining.by || "Someone"} asked it to drain
          {worker.draining.reason && `: ${worker.draining.reason}`}. It takes no new work and finishes its
          steps.
        </p>
      )}
      {worker.alive && (
        <ul className="doing mono xxs" aria-label="Active runs">
          {runs.slice(0, SHOWN).map((run) => (
            <li className="clip" key={run.id}>
              <Link className="link" to="/runs/$id" params={{ id: run.id }}>
                {run.key || run.id.slice(-8)}
              </Link>{" "}
              <span className="t2">{where(run).place || run.workflow}</span>
            </li>
          ))}
          {runs.length > SHOWN && <li className="t3">and {runs.length - SHOWN} more</li>}
          {!runs.length && <li className="t3">no active runs</li>}
        </ul>
      )}
      <details className="xs t2 hascode">
        <summary>
          {code.length} {code.length === 1 ? "workflow" : "workflows"}
        </summary>
        <ul className="doing mono xxs t2" aria-label="Workflows">
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
  if (!worker.alive) return <span className="tag st st-failed">lost</span>;
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
