-- Notifications that have to be sent, and alerts.
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

-- What alerts for failed runs ask.
CREATE INDEX runs_failed ON runs (workspace, workflow, version, queue, status, ended_at, id)
    WHERE status IN ('failed', 'timed_out');
