-- How far a run is, and the tokens that its steps used.
ALTER TABLE runs ADD COLUMN done REAL;
ALTER TABLE runs ADD COLUMN total REAL;
ALTER TABLE runs ADD COLUMN input_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN output_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN cost REAL NOT NULL DEFAULT 0;

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
    tickets.owner AS worker,
    runs.done,
    runs.total,
    runs.input_tokens,
    runs.output_tokens,
    runs.cost
FROM runs
LEFT JOIN tickets ON tickets.run_id = runs.id AND tickets.path = '';
