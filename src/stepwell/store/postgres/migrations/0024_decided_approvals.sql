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
