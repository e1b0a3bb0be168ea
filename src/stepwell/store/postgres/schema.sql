-- Stepwell in PostgreSQL.
--
-- A run is a durable actor: one log, one inbox, one owner at a time.
--
--   runs              a run: what was asked, where it stands, how it ended. Written at start, when it
--                     parks and when it ends; never for a single step.
--   events            the log: facts, appended and never changed. (run_id, seq) counts 1, 2, 3, ...
--   tickets           what must be looked at: path '' is the run itself, another path one of its remote
--                     steps. The ticket says who owns it (owner, lease), where the log ends (head), how
--                     many messages ever came (wakes) and when to look again (due_at). It is the one row
--                     that everybody locks first, and it is gone when the run has ended.
--   inbox             messages that the owner has not taken yet; n orders those of one run.
--   run_terms         tags of runs and words of their errors, to find them by.
--   run_counts        how many runs there are; run_count_changes: what is not added to it yet.
--   waits             what a run waits for and others must find: signals, broadcast events, decisions; and how
--                     far it has taken events (kind cursor).
--   decided_approvals approvals that were decided, and which events say how, for lists over all runs
--   published_events  broadcast events, kept for a while.
--   event_names       whose turn it is: events of one name are emitted one after the other.
--   workers           live processes; the heartbeat is one row update a process.
--   contact           since when the workers have been in touch with the database without a gap.
--   limits            how many runs of a workspace, workflow, queue or key may be active at once, where it is
--                     not what the runs bring along in their lane; counted from tickets, kept nowhere.
--   holds             workflows, queues and workspaces that were ever held: whether nobody may take their runs
--                     now, since when, by whom and why.
--   start_rates       how many runs of each workflow or by each user may be started in a while, where it was set.
--   start_windows     when runs were started lately, of each workflow or by each user that has a start rate.
--   definitions       versions of workflows, for those who start runs without having the code.
--   run_numbers       the last number given to, or reserved for, a run of each workflow.
--   switches          workflows that were ever disabled: whether they are, since when, by whom and why.
--   notifications     mails and webhooks that a process has to send, and those that were sent lately
--   alerts            what operators want to hear of, and the incidents that are not over
--   codec_check       one row where payloads are encoded: only the codec that reads it may open this database.
--   credentials       who may call a server: keys, sessions and approval links; of their secrets only the digest.
--   audit             what callers of a server changed, or tried to change.
--   secrets           values that nodes and steps use by name, sealed with a key that is not in here.
--   collections       named sets of records of a workspace: their schema, key and indexed fields
--   records           values of collections; record_terms has what they are found by
--   moved             where the content of this database came from.
--   step_logs         what the code of steps logged and printed, for people; removed with the run.
--   migrations        which of migrations/*.sql were applied.
--
-- Only the holder of `tickets.lease` who also knows `tickets.head` may append to `events`. A statement that
-- needs several tickets locks them in the order (run_id, path) before writing anything.
--
-- Times are seconds since the epoch; 'Infinity' is never. Payloads are bytes that hold JSON, so that they
-- can be compressed or encrypted; look at them through run_view and event_view. Text is compared by bytes
-- (COLLATE "C"): the order is the same everywhere and comparing is cheap.
--
-- Tables that are updated all the time keep free space in their pages (fillfactor), so that an update which
-- touches no indexed column stays in its page and costs no index entry, and are vacuumed early: a claim
-- gets slow by dead entries, not by live ones.
--
-- This file equals all migrations applied (there is a test); the migrations are what is executed.

CREATE TABLE stepwell.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE stepwell.definitions (
    workspace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    hash text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    input_schema bytea NOT NULL,
    options bytea NOT NULL,
    put_no bigint GENERATED ALWAYS AS IDENTITY, -- the latest one put has the highest
    title text COLLATE "C" NOT NULL DEFAULT '',
    description text COLLATE "C" NOT NULL DEFAULT '',
    created_at double precision NOT NULL DEFAULT 0,
    created_by text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (workspace, name, version)
);

CREATE TABLE stepwell.runs (
    id text COLLATE "C" PRIMARY KEY,
    workspace text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    input bytea NOT NULL,
    output bytea,
    error bytea,
    key text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    hash text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    lane text COLLATE "C" NOT NULL,
    parent text COLLATE "C" NOT NULL,
    parent_path text COLLATE "C" NOT NULL,
    root text COLLATE "C" NOT NULL,
    tags bytea NOT NULL,
    trigger text COLLATE "C" NOT NULL,
    where_at text COLLATE "C" NOT NULL,
    created_at double precision NOT NULL,
    started_at double precision,
    ended_at double precision,
    test boolean NOT NULL,
    number integer NOT NULL DEFAULT 0,
    started_by text COLLATE "C" NOT NULL DEFAULT '',
    done double precision,
    total double precision,
    input_tokens bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    cost double precision NOT NULL DEFAULT 0
)
WITH (fillfactor = 75, autovacuum_analyze_scale_factor = 0.02);

-- The idempotency key; a start that meets its key gets that run. Without one a run is known by its id.
CREATE UNIQUE INDEX runs_key ON stepwell.runs (workspace, key) WHERE key <> '';

-- Lists, newest first. Those of a workflow, version, queue or status go from group to group; `run_counts` says
-- which groups there are.
CREATE INDEX runs_newest ON stepwell.runs (workspace, created_at, id);

CREATE INDEX runs_group ON stepwell.runs (workspace, workflow, version, queue, status, created_at, id);

CREATE INDEX runs_trigger ON stepwell.runs (workspace, trigger, created_at, id) WHERE trigger <> 'api';

CREATE INDEX runs_parent ON stepwell.runs (parent, created_at, id) WHERE parent <> '';

-- What alerts for failed runs ask.
CREATE INDEX runs_failed ON stepwell.runs (workspace, workflow, version, queue, status, ended_at, id)
    WHERE status IN ('failed', 'timed_out');

-- What else a run is found by.
CREATE TABLE stepwell.run_terms (
    run_id text COLLATE "C" NOT NULL,
    term text COLLATE "C" NOT NULL, -- a tag of the run, or a word of its error
    workspace text COLLATE "C" NOT NULL,
    created_at double precision NOT NULL, -- of the run
    PRIMARY KEY (run_id, term)
);

CREATE INDEX run_terms_term ON stepwell.run_terms (workspace, term, created_at, run_id);

-- How many runs there are, by stored status: the counts, and the changes that were not added to them yet. A
-- start or an end only inserts a change, so no two of them wait for the same row.
CREATE TABLE stepwell.run_counts (
    workspace text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    n bigint NOT NULL,
    PRIMARY KEY (workspace, workflow, version, queue, status)
)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE stepwell.run_count_changes (
    workspace text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    n bigint NOT NULL
)
WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

CREATE FUNCTION stepwell.count_started() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stepwell.run_count_changes (workspace, workflow, version, queue, status, n)
    SELECT workspace, workflow, version, queue, status, count(*)
    FROM started
    GROUP BY workspace, workflow, version, queue, status;
    RETURN NULL;
END
$$;

CREATE FUNCTION stepwell.count_moved() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stepwell.run_count_changes (workspace, workflow, version, queue, status, n)
    SELECT workspace, workflow, version, queue, status, sum(n)
    FROM (
        SELECT workspace, workflow, version, queue, status, 1 AS n FROM after
        UNION ALL
        SELECT workspace, workflow, version, queue, status, -1 FROM before
    ) AS moved
    GROUP BY workspace, workflow, version, queue, status
    HAVING sum(n) <> 0;
    RETURN NULL;
END
$$;

CREATE FUNCTION stepwell.count_removed() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stepwell.run_count_changes (workspace, workflow, version, queue, status, n)
    SELECT workspace, workflow, version, queue, status, -count(*)
    FROM removed
    GROUP BY workspace, workflow, version, queue, status;
    RETURN NULL;
END
$$;

CREATE TRIGGER runs_started AFTER INSERT ON stepwell.runs
REFERENCING NEW TABLE AS started
FOR EACH STATEMENT EXECUTE FUNCTION stepwell.count_started();

CREATE TRIGGER runs_moved AFTER UPDATE ON stepwell.runs
REFERENCING OLD TABLE AS before NEW TABLE AS after
FOR EACH STATEMENT EXECUTE FUNCTION stepwell.count_moved();

CREATE TRIGGER runs_removed AFTER DELETE ON stepwell.runs
REFERENCING OLD TABLE AS removed
FOR EACH STATEMENT EXECUTE FUNCTION stepwell.count_removed();

CREATE TABLE stepwell.events (
    run_id text COLLATE "C" NOT NULL,
    seq integer NOT NULL,
    kind text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    at double precision NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (run_id, seq)
)
WITH (autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_freeze_min_age = 0); -- freeze once, early

CREATE TABLE stepwell.tickets (
    run_id text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    needs text COLLATE "C" NOT NULL, -- what a worker must have: workflow@version, step:name, emit
    workspace text COLLATE "C" NOT NULL,
    lane text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    started boolean NOT NULL, -- somebody owned it once
    ending boolean NOT NULL, -- cancel was asked
    not_before double precision NOT NULL,
    due_at double precision NOT NULL,
    owner text COLLATE "C",
    lease text COLLATE "C", -- random; equality is the fence
    head integer NOT NULL, -- the log ends here; of a remote step: its step_scheduled event
    base integer NOT NULL, -- replay begins here
    at double precision NOT NULL, -- of the last event; the next one is not earlier
    wakes integer NOT NULL, -- messages so far
    losses integer NOT NULL, -- owners lost since something was settled
    lost_lease text COLLATE "C" NOT NULL, -- of the owner that was lost, until the next one wrote it down
    solo boolean NOT NULL GENERATED ALWAYS AS (losses >= 2) STORED, -- only to be taken alone
    held bytea, -- nobody may take it: JSON with who asked for that, when and why
    PRIMARY KEY (run_id, path)
)
WITH (
    fillfactor = 60,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 2000,
    vacuum_truncate = off -- it would lock the table exclusively
);

-- The queue. A claim jumps from one (queue, needs, started, priority) to the next and reads only the first
-- entries of each. It has only tickets that nobody owns or holds, so commits that keep their lease never touch it.
CREATE INDEX tickets_open
    ON stepwell.tickets (solo, queue, needs, started DESC, priority DESC, due_at, run_id, path)
    WHERE lease IS NULL AND held IS NULL AND lane = '';

-- The same for runs that limits apply to: those that wait at a full limit hold up nobody else.
CREATE INDEX tickets_lane
    ON stepwell.tickets (solo, lane, needs, started DESC, priority DESC, due_at, run_id, path)
    WHERE lease IS NULL AND held IS NULL AND lane <> '';

-- When the next ticket of a lane is due, for each kind of work: so that runs which are suspended cost a claim
-- no look at the lanes. The last condition keeps the planner from using it for anything else.
CREATE INDEX tickets_lane_due ON stepwell.tickets (solo, queue, needs, due_at)
    WHERE lease IS NULL AND held IS NULL AND lane <> '' AND due_at < 'Infinity';

-- Those that were held.
CREATE INDEX tickets_on_hold ON stepwell.tickets (lane) WHERE held IS NOT NULL;

-- What is used of the limits.
CREATE INDEX tickets_held ON stepwell.tickets (lane) WHERE lease IS NOT NULL AND lane <> '';

-- What a worker owns: heartbeat, a claim that is asked again, and freeing what a dead worker left.
CREATE INDEX tickets_owned ON stepwell.tickets (owner, lease) WHERE owner IS NOT NULL;

CREATE TABLE stepwell.inbox (
    run_id text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    n integer NOT NULL, -- tickets.wakes after this message
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    payload bytea NOT NULL,
    at double precision NOT NULL,
    sender text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, key)
)
WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 2000,
    vacuum_truncate = off
);

CREATE TABLE stepwell.waits (
    run_id text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL, -- signal | event | decision | cursor
    name text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL, -- '' takes an event of any key
    since double precision NOT NULL,
    workspace text COLLATE "C" NOT NULL DEFAULT 'default',
    what text COLLATE "C" NOT NULL DEFAULT '', -- signal | event | approval | trigger
    seq integer NOT NULL DEFAULT 0, -- of its wait_opened event
    opened_at double precision NOT NULL DEFAULT 0,
    due_at double precision,
    PRIMARY KEY (run_id, path)
)
WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Open waits of all runs, newest first; of one name.
CREATE INDEX waits_open ON stepwell.waits (workspace, what, opened_at, run_id, path) WHERE what <> '';

CREATE INDEX waits_name ON stepwell.waits (workspace, what, name, opened_at, run_id, path) WHERE what <> '';

CREATE INDEX waits_event ON stepwell.waits (workspace, name, key, run_id) WHERE kind = 'event';

-- What events are kept for runs that wait for them, or may do so later.
CREATE INDEX waits_cursor ON stepwell.waits (workspace, name, key, since) WHERE kind IN ('event', 'cursor');

-- Approvals that were decided, of all runs, the last one first.
CREATE TABLE stepwell.decided_approvals (
    run_id text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    opened integer NOT NULL, -- seq of its wait_opened event
    received integer NOT NULL, -- of the decision; 0: it timed out
    ended integer NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    at double precision NOT NULL,
    PRIMARY KEY (run_id, ended)
);

CREATE INDEX decided_approvals_at ON stepwell.decided_approvals (workspace, at, run_id, ended);

CREATE TABLE stepwell.published_events (
    id text COLLATE "C" PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    payload bytea NOT NULL,
    at double precision NOT NULL, -- their order: no two of a name have the same
    workspace text COLLATE "C" NOT NULL DEFAULT 'default',
    sender text COLLATE "C" NOT NULL DEFAULT '',
    hops integer NOT NULL DEFAULT 0 -- how many runs led to one another before it
);

CREATE INDEX published_events_name ON stepwell.published_events (workspace, name, at, id);

CREATE INDEX published_events_key ON stepwell.published_events (workspace, name, key, at, id) WHERE key <> '';

-- An emit locks the row of the name until its commit, and takes a time after the last one.
CREATE TABLE stepwell.event_names (
    name text COLLATE "C" NOT NULL,
    first_at double precision NOT NULL, -- of the events that were emitted last, in one statement
    last_at double precision NOT NULL,
    workspace text COLLATE "C" NOT NULL DEFAULT 'default',
    PRIMARY KEY (workspace, name)
)
WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000
);

CREATE TABLE stepwell.workers (
    id text COLLATE "C" PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    queues text[] COLLATE "C" NOT NULL,
    needs text[] COLLATE "C" NOT NULL,
    lease_seconds double precision NOT NULL,
    lease_until double precision NOT NULL, -- not indexed, so that a heartbeat stays in its page
    leaving boolean NOT NULL DEFAULT false, -- about to stop: what it still owns when it dies does not count as lost
    drain bytea -- somebody asked it to stop: JSON with who, when and why
)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE stepwell.contact (
    one boolean PRIMARY KEY DEFAULT true CHECK (one), -- a single row
    since double precision NOT NULL,
    last double precision NOT NULL
)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

INSERT INTO stepwell.contact (since, last) VALUES (0, 0);

CREATE TABLE stepwell.limits (
    kind text COLLATE "C" NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    most integer,
    hold text COLLATE "C" NOT NULL,
    set_by text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (kind, workspace, name)
);

CREATE TABLE stepwell.holds (
    kind text COLLATE "C" NOT NULL, -- workspace, workflow or queue
    workspace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    held_by text COLLATE "C" NOT NULL,
    reason bytea NOT NULL,
    at double precision NOT NULL,
    held boolean NOT NULL DEFAULT true, -- false: it was released
    PRIMARY KEY (kind, workspace, name)
);

CREATE TABLE stepwell.start_windows (
    name text COLLATE "C" NOT NULL,
    seconds double precision NOT NULL,
    starts text COLLATE "C" NOT NULL, -- JSON: when and how many
    until double precision NOT NULL, -- after that none of them counts
    PRIMARY KEY (name, seconds)
)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX start_windows_until ON stepwell.start_windows (until);

CREATE TABLE stepwell.start_rates (
    per text COLLATE "C" NOT NULL, -- workflow or user
    seconds double precision NOT NULL,
    most integer, -- nothing: no rate, whatever engines were given
    set_by text COLLATE "C" NOT NULL,
    PRIMARY KEY (per, seconds)
);

CREATE TABLE stepwell.run_numbers (
    workspace text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    last integer NOT NULL, -- given to a run, or reserved by a process
    PRIMARY KEY (workspace, workflow)
)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE stepwell.switches (
    workspace text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    enabled boolean NOT NULL,
    switched_by text COLLATE "C" NOT NULL,
    reason bytea NOT NULL,
    at double precision NOT NULL,
    PRIMARY KEY (workspace, workflow)
);

CREATE TABLE stepwell.triggers (
    id text COLLATE "C" PRIMARY KEY,
    workspace text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL, -- schedule, event or one of a program
    name text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL, -- '': the latest
    settings bytea NOT NULL, -- JSON that only its type reads
    start bytea NOT NULL, -- JSON: input and options of its runs
    matches text COLLATE "C" NOT NULL, -- what finds it, such as the name of an event
    paused bytea, -- JSON: who paused it, when and why
    slot double precision, -- the next time that its schedule names
    next_at double precision, -- when it is due; NULL: not by time
    origin text COLLATE "C" NOT NULL, -- the graph that declares it
    revision integer NOT NULL,
    created_at double precision NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    updated_at double precision NOT NULL,
    updated_by text COLLATE "C" NOT NULL,
    state bytea NOT NULL, -- JSON that firing writes
    last_run text COLLATE "C" NOT NULL
);

CREATE UNIQUE INDEX triggers_named ON stepwell.triggers (workspace, type, name);

CREATE INDEX triggers_of_workflow ON stepwell.triggers (workspace, type, workflow, name);

CREATE INDEX triggers_matched ON stepwell.triggers (workspace, type, matches, name) WHERE matches <> '';

CREATE INDEX triggers_due ON stepwell.triggers (type, next_at, id) WHERE next_at IS NOT NULL;

CREATE INDEX triggers_declared ON stepwell.triggers (workspace, origin, type, name) WHERE origin <> '';

CREATE TABLE stepwell.notifications (
    id text COLLATE "C" PRIMARY KEY,
    workspace text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL, -- approval or alert
    channel text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    body bytea NOT NULL, -- JSON that only its kind reads
    created_at double precision NOT NULL,
    next_at double precision, -- when somebody must send it; NULL: it was sent, or given up
    attempt integer NOT NULL,
    ended_at double precision,
    error text COLLATE "C" NOT NULL -- of the last attempt
);

CREATE INDEX notifications_due ON stepwell.notifications (channel, next_at, id) WHERE next_at IS NOT NULL;

CREATE INDEX notifications_ended ON stepwell.notifications (ended_at, id) WHERE ended_at IS NOT NULL;

CREATE TABLE stepwell.alerts (
    id text COLLATE "C" PRIMARY KEY,
    workspace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    settings bytea NOT NULL, -- JSON: what it looks for, and whom it reports to
    paused boolean NOT NULL,
    check_at double precision NOT NULL,
    turn integer NOT NULL, -- counts its checks: only the last one may write
    incidents bytea NOT NULL, -- JSON: what it found and is not over
    created_at double precision NOT NULL,
    created_by text COLLATE "C" NOT NULL
);

CREATE UNIQUE INDEX alerts_named ON stepwell.alerts (workspace, name);

CREATE INDEX alerts_due ON stepwell.alerts (check_at, id) WHERE NOT paused;

CREATE TABLE stepwell.codec_check (
    one boolean PRIMARY KEY DEFAULT true CHECK (one), -- a single row
    value bytea NOT NULL
);

CREATE TABLE stepwell.credentials (
    id text COLLATE "C" PRIMARY KEY,
    kind text COLLATE "C" NOT NULL, -- key, session or link
    workspace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    principal text COLLATE "C" NOT NULL, -- person or service
    digest text COLLATE "C" NOT NULL, -- SHA-256 of the secret
    scopes text[] NOT NULL,
    roles text[] NOT NULL,
    key text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    created_at double precision NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    expires_at double precision,
    used_at double precision,
    revoked_at double precision,
    revoked_by text COLLATE "C" NOT NULL DEFAULT ''
);

CREATE INDEX credentials_listed ON stepwell.credentials (workspace, kind, id);

CREATE INDEX credentials_expired ON stepwell.credentials (expires_at) WHERE kind <> 'key';

CREATE TABLE stepwell.audit (
    id text COLLATE "C" NOT NULL,
    at double precision NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    by text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    status integer NOT NULL,
    credential text COLLATE "C" NOT NULL,
    address text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, id)
);

CREATE TABLE stepwell.secrets (
    workspace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    key text COLLATE "C" NOT NULL, -- which key outside the database `wrapped` is sealed with
    wrapped bytea NOT NULL,
    body bytea NOT NULL,
    use text COLLATE "C" NOT NULL, -- bearer, basic or header
    header text COLLATE "C" NOT NULL,
    hosts text[] NOT NULL,
    created_at double precision NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, name)
);

-- The lane of a ticket that brings no limit along; the same text as Lane.text in domain/lanes.py.
CREATE FUNCTION stepwell.plain_lane(workspace text, workflow text, queue text, child boolean, exempt boolean)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT format(
        '[%s,%s,%s,"",null,null,null,"active"%s]',
        to_json(workspace), to_json(workflow), to_json(queue),
        CASE WHEN exempt THEN format(',%s,true', to_json(child)) WHEN child THEN ',true' END
    )
$$;

-- For people. What is not JSON (compressed, encrypted) is shown as it is, escaped.
CREATE FUNCTION stepwell.readable(payload bytea) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    RETURN convert_from(payload, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN to_jsonb(encode(payload, 'escape'));
END
$$;

CREATE TABLE stepwell.collections (
    workspace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    schema bytea NOT NULL,
    key text COLLATE "C" NOT NULL, -- the field that is unique; '': none
    find text[] NOT NULL,
    records bigint NOT NULL, -- how many there are
    created_at double precision NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    updated_at double precision NOT NULL,
    updated_by text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, name)
);

CREATE TABLE stepwell.records (
    workspace text COLLATE "C" NOT NULL,
    collection text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    key text COLLATE "C", -- the term of its key field
    body bytea NOT NULL,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    PRIMARY KEY (workspace, collection, id)
);

CREATE UNIQUE INDEX records_by_key ON stepwell.records (workspace, collection, key) WHERE key IS NOT NULL;

-- Indexed values as JSON; keyed hashes of them where a codec hides values.
CREATE TABLE stepwell.record_terms (
    workspace text COLLATE "C" NOT NULL,
    collection text COLLATE "C" NOT NULL,
    field text COLLATE "C" NOT NULL,
    term text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, collection, field, term, id)
);

CREATE INDEX record_terms_by_id ON stepwell.record_terms (workspace, collection, id);

CREATE TABLE stepwell.step_logs (
    run_id text COLLATE "C" NOT NULL,
    n bigint NOT NULL, -- counts the lines of the run
    path text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    key text COLLATE "C" NOT NULL, -- made by the writer: a line that is written twice counts once
    at double precision NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (run_id, n)
);

CREATE UNIQUE INDEX step_logs_path ON stepwell.step_logs (run_id, path, attempt, key);

CREATE TABLE stepwell.moved (
    one boolean PRIMARY KEY DEFAULT true CHECK (one), -- a single row
    token text COLLATE "C" NOT NULL, -- the same on both sides
    state text COLLATE "C" NOT NULL, -- receiving or received
    place text COLLATE "C" NOT NULL, -- where it comes from
    at double precision NOT NULL
);

CREATE VIEW stepwell.run_view AS
SELECT
    r.id,
    r.workspace,
    r.workflow,
    r.number,
    r.version,
    r.kind,
    CASE WHEN t.lease IS NOT NULL THEN 'running' ELSE r.status END AS status,
    t.held IS NOT NULL AS held,
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
    t.owner AS worker,
    to_timestamp(nullif(t.due_at, 'infinity')) AS due_at,
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

CREATE VIEW stepwell.event_view AS
SELECT
    e.run_id,
    e.seq,
    e.kind,
    e.path,
    e.attempt,
    to_timestamp(e.at) AS at,
    stepwell.readable(e.payload) AS payload
FROM stepwell.events AS e;

CREATE VIEW stepwell.step_view AS
SELECT
    calls.run_id,
    calls.seq,
    calls.path,
    CASE
        WHEN last.kind = 'wait_ended' THEN
            CASE stepwell.readable(last.payload) ->> 'outcome'
                WHEN 'answered' THEN 'completed'
                WHEN 'withdrawn' THEN 'cancelled'
                ELSE 'timed_out'
            END
        WHEN last.kind IN ('step_failed', 'transition_failed') THEN
            CASE
                WHEN stepwell.readable(last.payload) ->> 'retry_in' IS NULL THEN 'failed'
                WHEN r.ended_at IS NOT NULL THEN 'cancelled'
                ELSE 'retrying'
            END
        WHEN last.kind = 'child_started' AND stepwell.readable(last.payload) ->> 'detached' = 'true' THEN 'completed'
        WHEN last.kind = 'child_ended' THEN
            CASE
                WHEN stepwell.readable(last.payload) ->> 'status' = 'completed' THEN 'completed'
                WHEN jsonb_typeof(stepwell.readable(last.payload)) = 'object' THEN 'failed'
                ELSE 'ended' -- how is encrypted
            END
        WHEN last.kind = 'node_failed' THEN 'failed'
        WHEN last.kind = 'node_skipped' THEN 'skipped'
        WHEN last.kind = 'node_cancelled' THEN 'cancelled'
        WHEN r.ended_at IS NOT NULL AND last.kind IN (
            'step_scheduled', 'timer_set', 'wait_opened', 'step_started', 'node_started', 'child_started'
        ) THEN 'cancelled' -- the run ended before it did
        WHEN last.kind = 'step_scheduled' THEN 'queued'
        WHEN last.kind IN ('timer_set', 'wait_opened') THEN 'waiting'
        WHEN last.kind IN ('step_started', 'node_started', 'child_started') THEN 'running'
        ELSE 'completed'
    END AS status,
    calls.attempts,
    to_timestamp(calls.first_at) AS first_at,
    to_timestamp(last.at) AS last_at,
    last.kind AS last_kind,
    stepwell.readable(last.payload) AS last_payload
FROM (
    SELECT
        e.run_id,
        e.path,
        min(e.seq) AS seq,
        max(e.seq) AS last_seq,
        max(e.attempt) AS attempts,
        min(e.at) AS first_at
    FROM stepwell.events AS e
    WHERE e.path <> '' AND e.kind IN (
        'step_scheduled', 'step_started', 'step_completed', 'step_failed', 'timer_set', 'timer_fired',
        'wait_opened', 'wait_ended', 'child_started', 'child_ended', 'transition_completed',
        'transition_failed', 'node_started', 'node_completed', 'node_failed', 'node_skipped', 'node_cancelled'
    )
    GROUP BY e.run_id, e.path
) AS calls
INNER JOIN stepwell.runs AS r ON r.id = calls.run_id
INNER JOIN stepwell.events AS last ON last.run_id = calls.run_id AND last.seq = calls.last_seq;
