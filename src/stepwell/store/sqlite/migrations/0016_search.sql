-- Finding runs and open waits by index, and counting runs.

-- Lists are in the order of creation. A restored or child run may have an id that is older than itself.
DROP INDEX runs_parent;

CREATE INDEX runs_newest ON runs (workspace, created_at, id);
CREATE INDEX runs_group ON runs (workspace, workflow, version, queue, status, created_at, id);
CREATE INDEX runs_trigger ON runs (workspace, "trigger", created_at, id) WHERE "trigger" <> 'api';
CREATE INDEX runs_parent ON runs (parent, created_at, id) WHERE parent <> '';

CREATE TABLE run_terms (
    run_id TEXT NOT NULL,
    term TEXT NOT NULL, -- a tag of the run, or a word of its error
    workspace TEXT NOT NULL,
    created_at REAL NOT NULL, -- of the run
    PRIMARY KEY (run_id, term)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_terms_term ON run_terms (workspace, term, created_at, run_id);

CREATE TABLE run_counts (
    workspace TEXT NOT NULL,
    workflow TEXT NOT NULL,
    version TEXT NOT NULL,
    queue TEXT NOT NULL,
    status TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (workspace, workflow, version, queue, status)
) STRICT, WITHOUT ROWID;

INSERT INTO run_counts (workspace, workflow, version, queue, status, n)
SELECT workspace, workflow, version, queue, status, count(*)
FROM runs
GROUP BY workspace, workflow, version, queue, status;

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

-- Open waits of all runs.
ALTER TABLE waits ADD COLUMN what TEXT NOT NULL DEFAULT '';
ALTER TABLE waits ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE waits ADD COLUMN opened_at REAL NOT NULL DEFAULT 0;
ALTER TABLE waits ADD COLUMN due_at REAL;

UPDATE waits
SET what = CASE
    WHEN kind = 'event' THEN 'event'
    WHEN (SELECT runs.kind FROM runs WHERE runs.id = waits.run_id) = 'machine' THEN 'trigger'
    ELSE 'approval'
END
WHERE kind IN ('event', 'decision');

UPDATE waits
SET seq = coalesce(
    (
        SELECT max(events.seq)
        FROM events
        WHERE events.run_id = waits.run_id AND events.path = waits.path AND events.kind = 'wait_opened'
    ),
    0
)
WHERE what <> '';

UPDATE waits
SET opened_at = (SELECT events.at FROM events WHERE events.run_id = waits.run_id AND events.seq = waits.seq)
WHERE seq > 0;

CREATE INDEX waits_open ON waits (workspace, what, opened_at, run_id, path) WHERE what <> '';
CREATE INDEX waits_name ON waits (workspace, what, name, opened_at, run_id, path) WHERE what <> '';
