-- Notifications that have to be sent, and alerts.
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

-- What alerts for failed runs ask.
CREATE INDEX runs_failed ON stepwell.runs (workspace, workflow, version, queue, status, ended_at, id)
    WHERE status IN ('failed', 'timed_out');
