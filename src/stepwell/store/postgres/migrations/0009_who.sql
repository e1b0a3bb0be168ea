-- Who did it, numbers of runs within their workflow, workflows that are disabled, and the workspace of events.

ALTER TABLE stepwell.runs ADD COLUMN number integer NOT NULL DEFAULT 0;
ALTER TABLE stepwell.runs ADD COLUMN started_by text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE stepwell.inbox ADD COLUMN sender text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE stepwell.waits ADD COLUMN workspace text COLLATE "C" NOT NULL DEFAULT 'default';
ALTER TABLE stepwell.published_events ADD COLUMN workspace text COLLATE "C" NOT NULL DEFAULT 'default';
ALTER TABLE stepwell.published_events ADD COLUMN sender text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE stepwell.event_names ADD COLUMN workspace text COLLATE "C" NOT NULL DEFAULT 'default';
ALTER TABLE stepwell.limits ADD COLUMN set_by text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE stepwell.definitions ADD COLUMN title text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE stepwell.definitions ADD COLUMN description text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE stepwell.definitions ADD COLUMN created_at double precision NOT NULL DEFAULT 0;
ALTER TABLE stepwell.definitions ADD COLUMN created_by text COLLATE "C" NOT NULL DEFAULT '';

UPDATE stepwell.waits AS w
SET workspace = r.workspace
FROM stepwell.runs AS r
WHERE r.id = w.run_id
    AND r.workspace <> 'default';

DROP INDEX stepwell.waits_event;
DROP INDEX stepwell.waits_cursor;
DROP INDEX stepwell.published_events_name;
DROP INDEX stepwell.published_events_key;

CREATE INDEX waits_event ON stepwell.waits (workspace, name, key, run_id) WHERE kind = 'event';
CREATE INDEX waits_cursor ON stepwell.waits (workspace, name, key, since) WHERE kind IN ('event', 'cursor');
CREATE INDEX published_events_name ON stepwell.published_events (workspace, name, at, id);
CREATE INDEX published_events_key ON stepwell.published_events (workspace, name, key, at, id) WHERE key <> '';

ALTER TABLE stepwell.event_names DROP CONSTRAINT event_names_pkey;
ALTER TABLE stepwell.event_names ADD PRIMARY KEY (workspace, name);

CREATE TABLE stepwell.run_numbers (
    workspace text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    last integer NOT NULL,
    PRIMARY KEY (workspace, workflow)
)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Runs from before keep number 0; the next one of their workflow is numbered as if they had been counted.
INSERT INTO stepwell.run_numbers (workspace, workflow, last)
SELECT workspace, workflow, count(*)
FROM stepwell.runs
GROUP BY workspace, workflow;

CREATE TABLE stepwell.switches (
    workspace text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    enabled boolean NOT NULL,
    switched_by text COLLATE "C" NOT NULL,
    reason bytea NOT NULL,
    at double precision NOT NULL,
    PRIMARY KEY (workspace, workflow)
);

DROP VIEW stepwell.run_view;

CREATE VIEW stepwell.run_view AS
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
    r.test
FROM stepwell.runs AS r
LEFT JOIN stepwell.tickets AS t ON t.run_id = r.id AND t.path = '';
