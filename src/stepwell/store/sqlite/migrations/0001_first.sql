-- The first schema. What the tables mean is told in schema.sql.
CREATE TABLE runs (
    id TEXT NOT NULL PRIMARY KEY,
    workspace TEXT NOT NULL,
    workflow TEXT NOT NULL,
    version TEXT NOT NULL,
    kind TEXT NOT NULL,
    hash TEXT NOT NULL,
    status TEXT NOT NULL,
    input BLOB NOT NULL,
    output BLOB,
    error BLOB,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    queue TEXT NOT NULL,
    lane TEXT NOT NULL,
    priority INTEGER NOT NULL,
    parent TEXT NOT NULL,
    parent_path TEXT NOT NULL,
    root TEXT NOT NULL,
    tags BLOB NOT NULL,
    "trigger" TEXT NOT NULL,
    where_at TEXT NOT NULL DEFAULT '',
    created_at REAL NOT NULL,
    started_at REAL,
    ended_at REAL,
    test INTEGER NOT NULL
) STRICT;

-- The idempotency key. Starting looks here first.
CREATE UNIQUE INDEX runs_key ON runs (workspace, key);

CREATE INDEX runs_parent ON runs (parent, id) WHERE parent <> '';

-- With a rowid: new rows go to the end of the table and only the narrow index is touched in the middle.
-- COMMIT of one event for each of 50 runs took 0.6 to 0.8 ms, WITHOUT ROWID 0.8 to 1.1 ms.
CREATE TABLE events (
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    path TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    at REAL NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (run_id, seq)
) STRICT;

CREATE TABLE tickets (
    run_id TEXT NOT NULL,
    path TEXT NOT NULL,
    queue TEXT NOT NULL,
    needs TEXT NOT NULL,
    workspace TEXT NOT NULL,
    lane TEXT NOT NULL,
    priority INTEGER NOT NULL,
    started INTEGER NOT NULL,
    ending INTEGER NOT NULL DEFAULT 0,
    not_before REAL NOT NULL,
    due_at REAL NOT NULL,
    owner TEXT,
    lease TEXT,
    head INTEGER NOT NULL,
    base INTEGER NOT NULL DEFAULT 1,
    at REAL NOT NULL,
    wakes INTEGER NOT NULL DEFAULT 0,
    losses INTEGER NOT NULL DEFAULT 0,
    lost_lease TEXT NOT NULL DEFAULT '',
    -- started before fresh, then by priority: one ascending number, so that a claim can leap over groups
    rank INTEGER GENERATED ALWAYS AS ((1 - started) * 1099511627776 - priority) VIRTUAL,
    PRIMARY KEY (run_id, path)
) STRICT, WITHOUT ROWID;

-- What a claim walks: only tickets that nobody has, so owned ones cost nothing here.
CREATE INDEX tickets_open ON tickets (queue, needs, rank, due_at, run_id, path)
    WHERE lease IS NULL AND losses < 2;

-- Those that lost two owners are taken alone.
CREATE INDEX tickets_solo ON tickets (queue, needs, rank, due_at, run_id, path)
    WHERE lease IS NULL AND losses >= 2;

CREATE INDEX tickets_owned ON tickets (owner, lease) WHERE owner IS NOT NULL;

CREATE TABLE inbox (
    run_id TEXT NOT NULL,
    key TEXT NOT NULL,
    n INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    payload BLOB NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (run_id, key)
) STRICT;

CREATE INDEX inbox_order ON inbox (run_id, n);

CREATE TABLE waits (
    run_id TEXT NOT NULL,
    path TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    since REAL NOT NULL,
    PRIMARY KEY (run_id, path)
) STRICT, WITHOUT ROWID;

CREATE INDEX waits_event ON waits (name, key, run_id, since, path) WHERE kind = 'event';

CREATE TABLE published_events (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    payload BLOB NOT NULL,
    at REAL NOT NULL
) STRICT;

CREATE INDEX published_events_name ON published_events (name, at);

CREATE TABLE workers (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    queues TEXT NOT NULL,
    needs TEXT NOT NULL,
    lease_seconds REAL NOT NULL,
    lease_until REAL NOT NULL,
    boot TEXT NOT NULL
) STRICT;

CREATE TABLE contact (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    since REAL NOT NULL,
    last REAL NOT NULL,
    boot TEXT NOT NULL
) STRICT;

CREATE TABLE definitions (
    n INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    kind TEXT NOT NULL,
    hash TEXT NOT NULL,
    body BLOB NOT NULL,
    input_schema BLOB NOT NULL,
    options BLOB NOT NULL,
    UNIQUE (workspace, name, version)
) STRICT;

CREATE VIEW run_view AS
SELECT
    runs.id,
    runs.workspace,
    runs.workflow,
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
    strftime('%Y-%m-%dT%H:%M:%fZ', runs.created_at, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', runs.started_at, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', runs.ended_at, 'unixepoch') AS ended_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', nullif(tickets.due_at, 9e999), 'unixepoch') AS due_at,
    tickets.owner AS worker
FROM runs
LEFT JOIN tickets ON tickets.run_id = runs.id AND tickets.path = '';

CREATE VIEW event_view AS
SELECT
    run_id,
    seq,
    kind,
    path,
    attempt,
    strftime('%Y-%m-%dT%H:%M:%fZ', at, 'unixepoch') AS at,
    CAST(payload AS TEXT) AS payload
FROM events;
