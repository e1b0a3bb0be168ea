-- Stepwell in one SQLite file.
--
-- A *run* is one execution of a workflow. Its truth is its *log*: rows of `events` with seq 1, 2, 3 …
-- that are appended and never changed. Everything else serves to find work and to hand it over.
--
--   runs              one row a run: what was asked, what came of it; its status changes at start,
--                     park and end only (while a worker owns the ticket the run is shown as running)
--   events            the log. A row gets in only under the lease of its run's ticket
--   tickets           what workers take: path '' is the run itself (there until it ends), another path
--                     is a remote step; needs = 'emit' is a broadcast event that must be handed out.
--                     `lease` (random) is the fence, `head` the last seq, `wakes` counts deliveries,
--                     `due_at` is when somebody must look (Infinity: only a message can wake it)
--   inbox             messages for a run that its owner has not taken into the log yet, in order of n
--   run_terms         tags of runs and words of their errors, to find them by
--   run_counts        how many runs there are, kept by triggers
--   waits             open waits that others must find: signals, broadcast events and decisions; and how far
--                     runs have taken events (kind cursor)
--   decided_approvals approvals that were decided, and which events say how, for lists over all runs
--   published_events  broadcast events, kept for a while for runs that are about to wait
--   workers           live processes; a lease runs on the host's boot clock (`boot` says which boot);
--                     `drain` is a request to stop: JSON with who asked for it, when and why
--   contact           one row: since when the fleet has been in touch with this file without a gap
--   limits            how many runs of a workspace, workflow, queue or key may be active at once, where it is
--                     not what the runs bring along in their lane; counted from tickets, kept nowhere
--   holds             workflows, queues and workspaces that were ever held: whether nobody may take their
--                     runs now, since when, by whom and why
--   start_rates       how many runs of each workflow or by each user may be started in a while, where it was set
--   start_windows     when runs were started lately, of each workflow or by each user that has a start rate
--   definitions       versions of workflows, for those who start runs without their code
--   run_numbers       the last number given to a run of each workflow
--   switches          workflows that were ever disabled: whether they are, since when, by whom and why
--   notifications     mails and webhooks that a process has to send, and those that were sent lately
--   alerts            what operators want to hear of, and the incidents that are not over
--   codec_check       one row where payloads are encoded: only the codec that reads it may open this file
--   credentials       who may call a server: keys, sessions and approval links; of their secrets only the digest
--   audit             what callers of a server changed, or tried to change
--   secrets           values that nodes and steps use by name, sealed with a key that is not in here
--   collections       named sets of records of a workspace: their schema, key and indexed fields
--   records           values of collections; record_terms has what they are found by
--   moved             where the content of this file has gone
--   step_logs         what the code of steps logged and printed, for people; removed with the run
--
-- Times are seconds since the epoch. Payloads are JSON in bytes; `run_view`, `event_view` and `step_view` show them
-- to people. This file is what the migrations lead to; a test compares the two.

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
    test INTEGER NOT NULL,
    number INTEGER NOT NULL DEFAULT 0,
    started_by TEXT NOT NULL DEFAULT '',
    done REAL,
    total REAL,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cost REAL NOT NULL DEFAULT 0
) STRICT;

-- The idempotency key. A start that has one looks here first; without one a run is known by its id.
CREATE UNIQUE INDEX runs_key ON runs (workspace, key) WHERE key <> '';

-- Lists, newest first. Those of a workflow, version, queue or status go from group to group; `run_counts` says
-- which groups there are.
CREATE INDEX runs_newest ON runs (workspace, created_at, id);

CREATE INDEX runs_group ON runs (workspace, workflow, version, queue, status, created_at, id);

CREATE INDEX runs_trigger ON runs (workspace, "trigger", created_at, id) WHERE "trigger" <> 'api';

CREATE INDEX runs_parent ON runs (parent, created_at, id) WHERE parent <> '';

-- What alerts for failed runs ask.
CREATE INDEX runs_failed ON runs (workspace, workflow, version, queue, status, ended_at, id)
    WHERE status IN ('failed', 'timed_out');

-- What else a run is found by.
CREATE TABLE run_terms (
    run_id TEXT NOT NULL,
    term TEXT NOT NULL, -- a tag of the run, or a word of its error
    workspace TEXT NOT NULL,
    created_at REAL NOT NULL, -- of the run
    PRIMARY KEY (run_id, term)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_terms_term ON run_terms (workspace, term, created_at, run_id);

-- How many runs there are, by stored status.
CREATE TABLE run_counts (
    workspace TEXT NOT NULL,
    workflow TEXT NOT NULL,
    version TEXT NOT NULL,
    queue TEXT NOT NULL,
    status TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (workspace, workflow, version, queue, status)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER runs_started AFTER INSERT ON runs
BEGIN
    INSERT INTO run_counts (workspace, workflow, version, queue, status, n)
    VALUES (NEW.workspace, NEW.workflow, NEW.version, NEW.queue, NEW.status, 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
END;

CREATE TRIGGER runs_moved AFTER UPDATE OF status ON runs WHEN NEW.status <> OLD.status
BEGIN
    UPDATE run_counts SET n = n - 1
    WHERE workspace = OLD.workspace AND workflow = OLD.workflow AND version = OLD.version
        AND queue = OLD.queue AND status = OLD.status;
    INSERT INTO run_counts (workspace, workflow, version, queue, status, n)
    VALUES (NEW.workspace, NEW.workflow, NEW.version, NEW.queue, NEW.status, 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
END;

CREATE TRIGGER runs_removed AFTER DELETE ON runs
BEGIN
    UPDATE run_counts SET n = n - 1
    WHERE workspace = OLD.workspace AND workflow = OLD.workflow AND version = OLD.version
        AND queue = OLD.queue AND status = OLD.status;
END;

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
    held BLOB, -- nobody may take it: JSON with who asked for that, when and why
    PRIMARY KEY (run_id, path)
) STRICT, WITHOUT ROWID;

-- What a claim walks: only tickets that nobody has or holds, so the others cost nothing here.
CREATE INDEX tickets_open ON tickets (queue, needs, rank, due_at, run_id, path)
    WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane = '';

-- Those that lost two owners are taken alone.
CREATE INDEX tickets_solo ON tickets (queue, needs, rank, due_at, run_id, path)
    WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane = '';

-- The same for runs that limits apply to: those that wait at a full limit hold up nobody else.
CREATE INDEX tickets_lane ON tickets (lane, needs, rank, due_at, run_id)
    WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '';

CREATE INDEX tickets_lane_solo ON tickets (lane, needs, rank, due_at, run_id)
    WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane <> '';

-- Does anybody wait there? A start that wants an owner asks that.
CREATE INDEX tickets_lane_due ON tickets (due_at) WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '';

-- Those that were held.
CREATE INDEX tickets_on_hold ON tickets (lane) WHERE held IS NOT NULL;

-- What is used of the limits.
CREATE INDEX tickets_held ON tickets (lane) WHERE lease IS NOT NULL AND lane <> '';

CREATE INDEX tickets_owned ON tickets (owner, lease) WHERE owner IS NOT NULL;

CREATE TABLE inbox (
    run_id TEXT NOT NULL,
    key TEXT NOT NULL,
    n INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    payload BLOB NOT NULL,
    at REAL NOT NULL,
    sender TEXT NOT NULL DEFAULT '',
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
    workspace TEXT NOT NULL DEFAULT 'default',
    what TEXT NOT NULL DEFAULT '', -- signal | event | approval | trigger
    seq INTEGER NOT NULL DEFAULT 0, -- of its wait_opened event
    opened_at REAL NOT NULL DEFAULT 0,
    due_at REAL,
    PRIMARY KEY (run_id, path)
) STRICT, WITHOUT ROWID;

-- Open waits of all runs, newest first; of one name.
CREATE INDEX waits_open ON waits (workspace, what, opened_at, run_id, path) WHERE what <> '';

CREATE INDEX waits_name ON waits (workspace, what, name, opened_at, run_id, path) WHERE what <> '';

CREATE INDEX waits_event ON waits (workspace, name, key, run_id, since, path) WHERE kind = 'event';

-- What events are kept for runs that wait for them, or may do so later.
CREATE INDEX waits_cursor ON waits (workspace, name, key, since) WHERE kind IN ('event', 'cursor');

-- Approvals that were decided, of all runs, the last one first.
CREATE TABLE decided_approvals (
    run_id TEXT NOT NULL,
    path TEXT NOT NULL,
    name TEXT NOT NULL,
    opened INTEGER NOT NULL, -- seq of its wait_opened event
    received INTEGER NOT NULL, -- of the decision; 0: it timed out
    ended INTEGER NOT NULL,
    workspace TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (run_id, ended)
) STRICT, WITHOUT ROWID;

CREATE INDEX decided_approvals_at ON decided_approvals (workspace, at, run_id, ended);

CREATE TABLE published_events (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    payload BLOB NOT NULL,
    at REAL NOT NULL, -- their order: no two of a name have the same
    workspace TEXT NOT NULL DEFAULT 'default',
    sender TEXT NOT NULL DEFAULT '',
    hops INTEGER NOT NULL DEFAULT 0 -- how many runs led to one another before it
) STRICT;

CREATE INDEX published_events_name ON published_events (workspace, name, at);

CREATE INDEX published_events_key ON published_events (workspace, name, key, at, id) WHERE key <> '';

CREATE TABLE workers (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    queues TEXT NOT NULL,
    needs TEXT NOT NULL,
    lease_seconds REAL NOT NULL,
    lease_until REAL NOT NULL,
    boot TEXT NOT NULL,
    leaving INTEGER NOT NULL DEFAULT 0,
    drain BLOB
) STRICT;

CREATE TABLE contact (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    since REAL NOT NULL,
    last REAL NOT NULL,
    boot TEXT NOT NULL
) STRICT;

CREATE TABLE limits (
    kind TEXT NOT NULL,
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    most INTEGER,
    hold TEXT NOT NULL,
    set_by TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (kind, workspace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE holds (
    kind TEXT NOT NULL, -- workspace, workflow or queue
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    held_by TEXT NOT NULL,
    reason BLOB NOT NULL,
    at REAL NOT NULL,
    held INTEGER NOT NULL DEFAULT 1, -- 0: it was released
    PRIMARY KEY (kind, workspace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE start_windows (
    name TEXT NOT NULL,
    seconds REAL NOT NULL,
    starts TEXT NOT NULL, -- JSON: when and how many
    until REAL NOT NULL, -- after that none of them counts
    PRIMARY KEY (name, seconds)
) STRICT, WITHOUT ROWID;

CREATE INDEX start_windows_until ON start_windows (until);

CREATE TABLE start_rates (
    per TEXT NOT NULL, -- workflow or user
    seconds REAL NOT NULL,
    most INTEGER, -- nothing: no rate, whatever engines were given
    set_by TEXT NOT NULL,
    PRIMARY KEY (per, seconds)
) STRICT, WITHOUT ROWID;

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
    title TEXT NOT NULL DEFAULT '',
    description TEXT NOT NULL DEFAULT '',
    created_at REAL NOT NULL DEFAULT 0,
    created_by TEXT NOT NULL DEFAULT '',
    UNIQUE (workspace, name, version)
) STRICT;

CREATE TABLE run_numbers (
    workspace TEXT NOT NULL,
    workflow TEXT NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (workspace, workflow)
) STRICT, WITHOUT ROWID;

CREATE TABLE switches (
    workspace TEXT NOT NULL,
    workflow TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    switched_by TEXT NOT NULL,
    reason BLOB NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (workspace, workflow)
) STRICT, WITHOUT ROWID;

CREATE TABLE triggers (
    id TEXT NOT NULL PRIMARY KEY,
    workspace TEXT NOT NULL,
    type TEXT NOT NULL, -- schedule, event or one of a program
    name TEXT NOT NULL,
    workflow TEXT NOT NULL,
    version TEXT NOT NULL, -- '': the latest
    settings BLOB NOT NULL, -- JSON that only its type reads
    start BLOB NOT NULL, -- JSON: input and options of its runs
    matches TEXT NOT NULL, -- what finds it, such as the name of an event
    paused BLOB, -- JSON: who paused it, when and why
    slot REAL, -- the next time that its schedule names
    next_at REAL, -- when it is due; NULL: not by time
    origin TEXT NOT NULL, -- the graph that declares it
    revision INTEGER NOT NULL,
    created_at REAL NOT NULL,
    created_by TEXT NOT NULL,
    updated_at REAL NOT NULL,
    updated_by TEXT NOT NULL,
    state BLOB NOT NULL, -- JSON that firing writes
    last_run TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX triggers_named ON triggers (workspace, type, name);

CREATE INDEX triggers_of_workflow ON triggers (workspace, type, workflow, name);

CREATE INDEX triggers_matched ON triggers (workspace, type, matches, name) WHERE matches <> '';

CREATE INDEX triggers_due ON triggers (type, next_at, id) WHERE next_at IS NOT NULL;

CREATE INDEX triggers_declared ON triggers (workspace, origin, type, name) WHERE origin <> '';

CREATE TABLE notifications (
    id TEXT NOT NULL PRIMARY KEY,
    workspace TEXT NOT NULL,
    kind TEXT NOT NULL, -- approval or alert
    channel TEXT NOT NULL,
    run_id TEXT NOT NULL,
    body BLOB NOT NULL, -- JSON that only its kind reads
    created_at REAL NOT NULL,
    next_at REAL, -- when somebody must send it; NULL: it was sent, or given up
    attempt INTEGER NOT NULL,
    ended_at REAL,
    error TEXT NOT NULL -- of the last attempt
) STRICT, WITHOUT ROWID;

CREATE INDEX notifications_due ON notifications (channel, next_at, id) WHERE next_at IS NOT NULL;

CREATE INDEX notifications_ended ON notifications (ended_at, id) WHERE ended_at IS NOT NULL;

CREATE TABLE alerts (
    id TEXT NOT NULL PRIMARY KEY,
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    settings BLOB NOT NULL, -- JSON: what it looks for, and whom it reports to
    paused INTEGER NOT NULL,
    check_at REAL NOT NULL,
    turn INTEGER NOT NULL, -- counts its checks: only the last one may write
    incidents BLOB NOT NULL, -- JSON: what it found and is not over
    created_at REAL NOT NULL,
    created_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX alerts_named ON alerts (workspace, name);

CREATE INDEX alerts_due ON alerts (check_at, id) WHERE paused = 0;

CREATE TABLE codec_check (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    value BLOB NOT NULL
) STRICT;

CREATE TABLE credentials (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL, -- key, session or link
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    principal TEXT NOT NULL, -- person or service
    digest TEXT NOT NULL, -- SHA-256 of the secret
    scopes TEXT NOT NULL, -- JSON
    roles TEXT NOT NULL, -- JSON
    key TEXT NOT NULL,
    run_id TEXT NOT NULL,
    path TEXT NOT NULL,
    seq INTEGER NOT NULL,
    created_at REAL NOT NULL,
    created_by TEXT NOT NULL,
    expires_at REAL,
    used_at REAL,
    revoked_at REAL,
    revoked_by TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE INDEX credentials_listed ON credentials (workspace, kind, id);

CREATE INDEX credentials_expired ON credentials (expires_at) WHERE kind <> 'key';

CREATE TABLE audit (
    id TEXT NOT NULL,
    at REAL NOT NULL,
    workspace TEXT NOT NULL,
    "by" TEXT NOT NULL,
    action TEXT NOT NULL,
    path TEXT NOT NULL,
    status INTEGER NOT NULL,
    credential TEXT NOT NULL,
    address TEXT NOT NULL,
    PRIMARY KEY (workspace, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE secrets (
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    key TEXT NOT NULL, -- which key outside the database `wrapped` is sealed with
    wrapped BLOB NOT NULL,
    body BLOB NOT NULL,
    use TEXT NOT NULL, -- bearer, basic or header
    header TEXT NOT NULL,
    hosts TEXT NOT NULL, -- JSON
    created_at REAL NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (workspace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE collections (
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    schema BLOB NOT NULL,
    key TEXT NOT NULL, -- the field that is unique; '': none
    find TEXT NOT NULL, -- JSON
    records INTEGER NOT NULL, -- how many there are
    created_at REAL NOT NULL,
    created_by TEXT NOT NULL,
    updated_at REAL NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (workspace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE records (
    workspace TEXT NOT NULL,
    collection TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    key TEXT, -- the term of its key field
    body BLOB NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    PRIMARY KEY (workspace, collection, id)
) STRICT;

CREATE UNIQUE INDEX records_by_key ON records (workspace, collection, key) WHERE key IS NOT NULL;

-- Indexed values as JSON; keyed hashes of them where a codec hides values.
CREATE TABLE record_terms (
    workspace TEXT NOT NULL,
    collection TEXT NOT NULL,
    field TEXT NOT NULL,
    term TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (workspace, collection, field, term, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX record_terms_by_id ON record_terms (workspace, collection, id);

CREATE TABLE step_logs (
    run_id TEXT NOT NULL,
    n INTEGER NOT NULL, -- counts the lines of the run
    path TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    key TEXT NOT NULL, -- made by the writer: a line that is written twice counts once
    at REAL NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (run_id, n)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX step_logs_path ON step_logs (run_id, path, attempt, key);

CREATE TABLE moved (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    token TEXT NOT NULL, -- the same on both sides
    state TEXT NOT NULL, -- moving or moved
    place TEXT NOT NULL, -- where it goes
    at REAL NOT NULL
) STRICT;

CREATE VIEW run_view AS
SELECT
    runs.id,
    runs.workspace,
    runs.workflow,
    runs.number,
    runs.version,
    runs.kind,
    CASE WHEN tickets.lease IS NULL THEN runs.status ELSE 'running' END AS status,
    tickets.held IS NOT NULL AS held,
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
    runs.queue,
    runs.priority,
    tickets.owner AS worker,
    strftime('%Y-%m-%dT%H:%M:%fZ', nullif(tickets.due_at, 9e999), 'unixepoch') AS due_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', runs.created_at, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', runs.started_at, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', runs.ended_at, 'unixepoch') AS ended_at,
    runs.test,
    runs.done,
    runs.total,
    runs.input_tokens,
    runs.output_tokens,
    runs.cost
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

CREATE VIEW step_view AS
SELECT
    calls.run_id,
    calls.seq,
    last.path,
    CASE
        WHEN last.kind = 'wait_ended' THEN
            CASE json_extract(CAST(last.payload AS TEXT), '$.outcome')
                WHEN 'answered' THEN 'completed'
                WHEN 'withdrawn' THEN 'cancelled'
                ELSE 'timed_out'
            END
        WHEN last.kind IN ('step_failed', 'transition_failed') THEN
            iif(json_valid(last.payload) AND json_extract(CAST(last.payload AS TEXT), '$.retry_in') IS NOT NULL,
                iif(runs.ended_at IS NULL, 'retrying', 'cancelled'), 'failed')
        WHEN last.kind = 'child_started' AND json_valid(last.payload)
            AND json_extract(CAST(last.payload AS TEXT), '$.detached') THEN 'completed'
        WHEN last.kind = 'child_ended' THEN
            CASE iif(json_valid(last.payload), json_extract(CAST(last.payload AS TEXT), '$.status'), '')
                WHEN 'completed' THEN 'completed'
                WHEN '' THEN 'ended' -- how is encrypted
                ELSE 'failed'
            END
        WHEN last.kind = 'node_failed' THEN 'failed'
        WHEN last.kind = 'node_skipped' THEN 'skipped'
        WHEN last.kind = 'node_cancelled' THEN 'cancelled'
        WHEN runs.ended_at IS NOT NULL AND last.kind IN (
            'step_scheduled', 'timer_set', 'wait_opened', 'step_started', 'node_started', 'child_started'
        ) THEN 'cancelled' -- the run ended before it did
        WHEN last.kind = 'step_scheduled' THEN 'queued'
        WHEN last.kind IN ('timer_set', 'wait_opened') THEN 'waiting'
        WHEN last.kind IN ('step_started', 'node_started', 'child_started') THEN 'running'
        ELSE 'completed'
    END AS status,
    calls.attempts,
    strftime('%Y-%m-%dT%H:%M:%fZ', calls.first_at, 'unixepoch') AS first_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', last.at, 'unixepoch') AS last_at,
    last.kind AS last_kind,
    CAST(last.payload AS TEXT) AS last_payload
FROM (
    SELECT run_id, path, min(seq) AS seq, max(seq) AS last_seq, max(attempt) AS attempts, min(at) AS first_at
    FROM events
    WHERE path <> '' AND kind IN (
        'step_scheduled', 'step_started', 'step_completed', 'step_failed', 'timer_set', 'timer_fired',
        'wait_opened', 'wait_ended', 'child_started', 'child_ended', 'transition_completed',
        'transition_failed', 'node_started', 'node_completed', 'node_failed', 'node_skipped', 'node_cancelled'
    )
    GROUP BY run_id, path
) AS calls
INNER JOIN runs ON runs.id = calls.run_id
INNER JOIN events AS last ON last.run_id = calls.run_id AND last.seq = calls.last_seq;
