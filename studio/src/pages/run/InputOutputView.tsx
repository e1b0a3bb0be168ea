import { JsonView } from "../../components/JsonView";
import { isEnded } from "../../domain/status";
import { asProblem } from "../../domain/where";
import { ErrorBox } from "./Inspector";
import type { RunAt } from "./RunPage";

/** What the run was started with, and what came of it. */
export function InputOutputView({ at }: { at: RunAt }) {
  const { run, model } = at;
  const problem = asProblem(run.error);
  const tags = Object.entries(run.tags);
  return (
    <div className="scroll stategrid">
      <section aria-label="Input">
        <h2 className="h3">Input</h2>
        <JsonView value={run.input} name="input" />
        {tags.length > 0 && (
          <>
            <h2 className="h3 mt-4">Tags</h2>
            <p className="row wrap">
              {tags.map(([name, value]) => (
                <span className="chip" key={name}>
                  {name}: <b>{value}</b>
                </span>
              ))}
            </p>
          </>
        )}
      </section>
      <section aria-label="Output">
        <h2 className="h3">Output</h2>
        {problem ? (
          <ErrorBox problem={problem} at={at} />
        ) : isEnded(run.status) ? (
          <JsonView value={run.output} name="output" />
        ) : (
          <p className="t3">The run has not ended yet.</p>
        )}
        {model.published.length > 0 && (
          <>
            <h2 className="h3 mt-4">Published</h2>
            <JsonView
              value={model.published.map((each) => ({ topic: each.topic, data: each.data }))}
              name="published"
            />
          </>
        )}
      </section>
    </div>
  );
}
