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
