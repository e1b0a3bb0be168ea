import { CopyButton } from "../../components/CopyButton";
import { Command } from "../../components/EmptyState";

const CODE = `from stepwell import Context, step, workflow

@step
async def charge(order: str) -> str:
    return f"receipt-{order}"

@workflow
async def fulfil(ctx: Context, order: str) -> str:
    receipt = await ctx.step(charge, order)
    await ctx.sleep("3d")
    return receipt`;

const GRAPH = `{
  "nodes": [
    {"id": "start", "type": "start"},
    {"id": "pause", "type": "delay",
     "data": {"duration": "3d"}},
    {"id": "end", "type": "end"}
  ],
  "edges": [
    {"source": "start", "target": "pause"},
    {"source": "pause", "target": "end"}
  ]
}`;

/** The first visit: three ways to get a workflow. */
export function NoWorkflows() {
  return (
    <div className="empty1 scroll">
      <h2>No workflows yet. Three ways to get one.</h2>
      <p className="t2">Workflows appear here as soon as a worker has them.</p>
      <div className="ecards">
        <section className="ecard" aria-labelledby="watch">
          <h3 id="watch">Watch one</h3>
          <p className="t2">
            A shop with a live run, a failed one, an approval that waits for you, and a worker to kill.
          </p>
          <Command text="stepwell demo" />
        </section>
        <section className="ecard main2" aria-labelledby="write">
          <h3 id="write">Write one</h3>
          <pre className="code" tabIndex={0}>
            {CODE}
          </pre>
          <div className="row wrap">
            <Command text="stepwell dev flows.py" />
            <CopyButton small text={CODE} label="Copy code" />
          </div>
        </section>
        <section className="ecard" aria-labelledby="draw">
          <h3 id="draw">Describe one</h3>
          <p className="t2">A graph is JSON that you can keep in git.</p>
          <pre className="code" tabIndex={0}>
            {GRAPH}
          </pre>
          <div className="row wrap">
            <Command text="stepwell workflows save graph.json" />
            <CopyButton small text={GRAPH} label="Copy graph" />
          </div>
        </section>
      </div>
    </div>
  );
}
