-- Who did it, numbers of runs within their workflow, workflows that are disabled, and the workspace of events.

ALTER TABLE runs ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN started_by TEXT NOT NULL DEFAULT '';
ALTER TABLE inbox ADD COLUMN sender TEXT NOT NULL DEFAULT '';
ALTER TABLE waits ADD COLUMN workspace TEXT NOT NULL DEFAULT 'default';
ALTER TABLE published_events ADD COLUMN workspace TEXT NOT NULL DEFAULT 'default';
ALTER TABLE published_events ADD COLUMN sender TEXT NOT NULL DEFAULT '';
ALTER TABLE limits ADD COLUMN set_by TEXT NOT NULL DEFAULT '';
ALTER TABLE definitions ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE definitions ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE definitions ADD COLUMN created_at REAL NOT NULL DEFAULT 0;
ALTER TABLE definitions ADD COLUMN created_by TEXT NOT NULL DEFAULT '';

UPDATE waits
SET workspace = (SELECT runs.workspace FROM runs WHERE runs.id = waits.run_id)
WHERE EXISTS (SELECT 1 FROM runs WHERE runs.id = waits.run_id AND runs.workspace <> 'default');

DROP INDEX waits_event;
DROP INDEX waits_cursor;
DROP INDEX published_events_name;
DROP INDEX published_events_key;

CREATE INDEX waits_event ON waits (workspace, name, key, run_id, since, path) WHERE kind = 'event';
CREATE INDEX waits_cursor ON waits (workspace, name, key, since) WHERE kind IN ('event', 'cursor');
CREATE INDEX published_events_name ON published_events (workspace, name, at);
CREATE INDEX published_events_key ON published_events (workspace, name, key, at, id) WHERE key <> '';

CREATE TABLE run_numbers (
    workspace TEXT NOT NULL,
    workflow TEXT NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (workspace, workflow)
) STRICT, WITHOUT ROWID;

-- Runs from before keep number 0; the next one of their workflow is numbered as if they had been counted.
INSERT INTO run_numbers (workspace, workflow, last)
SELECT workspace, workflow, count(*)
FROM runs
GROUP BY workspace, workflow;

CREATE TABLE switches (
    workspace TEXT NOT NULL,
    workflow TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    switched_by TEXT NOT NULL,
    reason BLOB NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (workspace, workflow)
) STRICT, WITHOUT ROWID;

DROP VIEW run_view;

CREATE VIEW run_view AS
SELECT
    runs.id,
    runs.workspace,
    runs.workflow,
    runs.number,
    runs.version,
    runs.kind,
    CASE WHEN tickets.lease IS NULL THEN runs.status ELSE 'running' END AS status,
    runs.where_at,
    CAST(runs.input AS TEXT) AS input,
    CAST(runs.output AS TEXT) AS output,
    CAST(runs.error AS TEXT) AS error,
    runs.key,
    runs.parent,
    runs.root,
    CAST(runs.tags AS TEXT) AS tags,
    runs."trigger",
    runs.started_by,
    strftime('%Y-%m-%dT%H:%M:%fZ', runs.created_at, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', runs.started_at, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', runs.ended_at, 'unixepoch') AS ended_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', nullif(tickets.due_at, 9e999), 'unixepoch') AS due_at,
    tickets.owner AS worker
FROM runs
LEFT JOIN tickets ON tickets.run_id = runs.id AND tickets.path = '';
