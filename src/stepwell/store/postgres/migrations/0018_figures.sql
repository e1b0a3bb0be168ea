-- How far a run is, and the tokens that its steps used. No index has them: such an update stays in its page.
ALTER TABLE stepwell.runs
ADD COLUMN done double precision,
ADD COLUMN total double precision,
ADD COLUMN input_tokens bigint NOT NULL DEFAULT 0,
ADD COLUMN output_tokens bigint NOT NULL DEFAULT 0,
ADD COLUMN cost double precision NOT NULL DEFAULT 0;

CREATE OR REPLACE VIEW stepwell.run_view AS
SELECT
    r.id,
    r.workspace,
    r.workflow,
    r.number,
    r.version,
    r.kind,
    CASE WHEN t.lease IS NOT NULL THEN 'running' ELSE r.status END AS status,
    r.where_at,
    stepwell.readable(r.input) AS input,
    stepwell.readable(r.output) AS output,
    stepwell.readable(r.error) AS error,
    r.key,
    r.parent,
    r.root,
    stepwell.readable(r.tags) AS tags,
    r.trigger,
    r.started_by,
    r.queue,
    r.priority,
    t.owner,
    t.head,
    to_timestamp(t.due_at) AS due_at,
    to_timestamp(r.created_at) AS created_at,
    to_timestamp(r.started_at) AS started_at,
    to_timestamp(r.ended_at) AS ended_at,
    r.test,
    r.done,
    r.total,
    r.input_tokens,
    r.output_tokens,
    r.cost
FROM stepwell.runs AS r
LEFT JOIN stepwell.tickets AS t ON t.run_id = r.id AND t.path = '';
