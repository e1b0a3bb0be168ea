-- Finding runs and open waits by index, and counting runs.

-- Lists are in the order of creation. A restored or child run may have an id that is older than itself.
DROP INDEX stepwell.runs_workflow;
DROP INDEX stepwell.runs_parent;

CREATE INDEX runs_newest ON stepwell.runs (workspace, created_at, id);
CREATE INDEX runs_group ON stepwell.runs (workspace, workflow, version, queue, status, created_at, id);
CREATE INDEX runs_trigger ON stepwell.runs (workspace, trigger, created_at, id) WHERE trigger <> 'api';
CREATE INDEX runs_parent ON stepwell.runs (parent, created_at, id) WHERE parent <> '';

CREATE TABLE stepwell.run_terms (
    run_id text COLLATE "C" NOT NULL,
    term text COLLATE "C" NOT NULL, -- a tag of the run, or a word of its error
    workspace text COLLATE "C" NOT NULL,
    created_at double precision NOT NULL, -- of the run
    PRIMARY KEY (run_id, term)
);

CREATE INDEX run_terms_term ON stepwell.run_terms (workspace, term, created_at, run_id);

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

INSERT INTO stepwell.run_counts (workspace, workflow, version, queue, status, n)
SELECT workspace, workflow, version, queue, status, count(*)
FROM stepwell.runs
GROUP BY workspace, workflow, version, queue, status;

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

-- Open waits of all runs.
ALTER TABLE stepwell.waits ADD COLUMN what text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE stepwell.waits ADD COLUMN seq integer NOT NULL DEFAULT 0;
ALTER TABLE stepwell.waits ADD COLUMN opened_at double precision NOT NULL DEFAULT 0;
ALTER TABLE stepwell.waits ADD COLUMN due_at double precision;

UPDATE stepwell.waits AS w
SET what = CASE WHEN w.kind = 'event' THEN 'event' WHEN r.kind = 'machine' THEN 'trigger' ELSE 'approval' END
FROM stepwell.runs AS r
WHERE r.id = w.run_id
    AND w.kind IN ('event', 'decision');

UPDATE stepwell.waits AS w
SET seq = e.seq, opened_at = e.at
FROM (
    SELECT DISTINCT ON (run_id, path) run_id, path, seq, at
    FROM stepwell.events
    WHERE kind = 'wait_opened'
        AND run_id IN (SELECT run_id FROM stepwell.waits)
    ORDER BY run_id, path, seq DESC
) AS e
WHERE e.run_id = w.run_id
    AND e.path = w.path
    AND w.what <> '';

CREATE INDEX waits_open ON stepwell.waits (workspace, what, opened_at, run_id, path) WHERE what <> '';
CREATE INDEX waits_name ON stepwell.waits (workspace, what, name, opened_at, run_id, path) WHERE what <> '';
