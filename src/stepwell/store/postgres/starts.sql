-- Starting runs.

-- name: start_runs
-- Ordered by key, so that two starters of the same keys wait for each other in one direction. Event and
-- ticket are written only for the runs that RETURNING names. IN (...) IS TRUE does not become a join: it
-- looks up each id in a hash table, whatever the planner believes about sizes.
-- A registered worker owns the runs it starts if no limits are set and nothing is held. Its row is not locked: if the worker is
-- deleted at this moment, the ticket has an owner without a row, and the next reap frees it.
-- If one of their workflows is disabled, none is written: the caller leaves out its runs and asks again.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
s AS MATERIALIZED (
    SELECT
        u.*,
        substring($3::bytea FROM u.accepted_at FOR u.input_at - u.accepted_at) AS accepted,
        substring($3::bytea FROM u.input_at FOR u.tags_at - u.input_at) AS input,
        substring($3::bytea FROM u.tags_at FOR u.ends_at - u.tags_at) AS tags
    FROM (SELECT string_to_array($2, E'\x1e') AS t) AS c
    CROSS JOIN LATERAL unnest(
        string_to_array(c.t[1], E'\x1f'), string_to_array(c.t[2], E'\x1f'), string_to_array(c.t[3], E'\x1f'),
        string_to_array(c.t[4], E'\x1f'), string_to_array(c.t[5], E'\x1f'), string_to_array(c.t[6], E'\x1f'),
        string_to_array(c.t[7], E'\x1f'), string_to_array(c.t[8], E'\x1f'), string_to_array(c.t[9], E'\x1f'),
        string_to_array(c.t[10], E'\x1f'), string_to_array(c.t[11], E'\x1f'), string_to_array(c.t[12], E'\x1f'),
        string_to_array(c.t[13], E'\x1f'), string_to_array(c.t[14], E'\x1f'), string_to_array(c.t[15], E'\x1f'),
        string_to_array(c.t[16], E'\x1f'), string_to_array(c.t[17], E'\x1f'), string_to_array(c.t[18], E'\x1f'),
        string_to_array($4, ',')::int[], string_to_array($5, ',')::int[], string_to_array($6, ',')::int[],
        string_to_array($7, ',')::int[], string_to_array($8, ',')::int[], string_to_array($9, ',')::float8[],
        string_to_array($10, ',')::bool[], string_to_array($11, ',')::int[]
    ) AS u (
        id, workspace, workflow, version, kind, queue, needs, key, digest, lane, hash, parent, parent_path,
        root, trigger, owner, lease, started_by, accepted_at, input_at, tags_at, ends_at, priority, delay, test,
        number
    )
    WHERE u.ends_at IS NOT NULL -- each column of text has one more, so that a lone '' is an element
    ORDER BY workspace, key, id
),
takers AS MATERIALIZED (
    SELECT w.id
    FROM stepwell.workers AS w
    WHERE w.id IN (SELECT s.owner FROM s)
        AND NOT EXISTS (SELECT FROM stepwell.limits AS l WHERE l.most IS NOT NULL)
        AND NOT EXISTS (SELECT FROM stepwell.holds AS h WHERE h.held)
),
born AS (
    INSERT INTO stepwell.runs (
        id, workspace, workflow, version, kind, status, input, key, digest, hash, queue, priority, lane,
        parent, parent_path, root, tags, trigger, where_at, created_at, test, number, started_by
    )
    SELECT
        s.id, s.workspace, s.workflow, s.version, s.kind, 'pending', s.input, s.key, s.digest, s.hash, s.queue,
        s.priority, s.lane, s.parent, s.parent_path, s.root, s.tags, s.trigger, '', clock.now, s.test,
        s.number, s.started_by
    FROM clock
    CROSS JOIN s
    WHERE NOT EXISTS ( -- asked once, not for each run
        SELECT
        FROM stepwell.switches AS d
        WHERE NOT d.enabled
            AND (d.workspace, d.workflow) IN (SELECT w.* FROM unnest($12::text[], $13::text[]) AS w)
    )
    ON CONFLICT DO NOTHING -- of its key, or of its id where it has none
    RETURNING id
),
accepted AS (
    INSERT INTO stepwell.events (run_id, seq, kind, path, attempt, at, payload)
    SELECT s.id, 1, 'accepted', '', 0, clock.now, s.accepted
    FROM clock
    CROSS JOIN s
    WHERE (s.id IN (SELECT born.id FROM born)) IS TRUE
),
queued AS (
    INSERT INTO stepwell.tickets (
        run_id, path, queue, needs, workspace, lane, priority, started, ending, not_before, due_at,
        head, base, at, wakes, losses, lost_lease, owner, lease
    )
    SELECT
        s.id, '', s.queue, s.needs, s.workspace, s.lane, s.priority, taken.yes, false,
        clock.now + s.delay, clock.now + s.delay, 1, 1, clock.now, 0, 0, '',
        CASE WHEN taken.yes THEN s.owner END, CASE WHEN taken.yes THEN s.lease END
    FROM clock
    CROSS JOIN s
    CROSS JOIN LATERAL (SELECT (s.owner IN (SELECT takers.id FROM takers)) IS TRUE AS yes) AS taken
    WHERE (s.id IN (SELECT born.id FROM born)) IS TRUE
    RETURNING run_id, at, owner IS NOT NULL AS taken
),
tagged AS (
    INSERT INTO stepwell.run_terms (run_id, term, workspace, created_at)
    SELECT m.id, m.term, m.workspace, clock.now
    FROM clock
    CROSS JOIN unnest($14::text[], $15::text[], $16::text[]) AS m (id, term, workspace)
    WHERE (m.id IN (SELECT born.id FROM born)) IS TRUE
)
SELECT run_id, at, taken
FROM queued;

-- name: start_run
-- The same for one run, without the lists: 0.47 instead of 0.60 ms, of which writing any row takes 0.37.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
takers AS MATERIALIZED (
    SELECT w.id
    FROM stepwell.workers AS w
    WHERE w.id = $17
        AND NOT EXISTS (SELECT FROM stepwell.limits AS l WHERE l.most IS NOT NULL)
        AND NOT EXISTS (SELECT FROM stepwell.holds AS h WHERE h.held)
),
born AS (
    INSERT INTO stepwell.runs (
        id, workspace, workflow, version, kind, status, input, key, digest, hash, queue, priority, lane,
        parent, parent_path, root, tags, trigger, where_at, created_at, test, number, started_by
    )
    SELECT
        $2, $3, $4, $5, $6, 'pending', $21, $9, $10, $12, $7,
        $23, $11, $13, $14, $15, $22, $16, '', clock.now, $25, $26, $19
    FROM clock
    WHERE NOT EXISTS (
        SELECT FROM stepwell.switches AS d WHERE d.workspace = $3 AND d.workflow = $4 AND NOT d.enabled
    )
    ON CONFLICT DO NOTHING -- of its key, or of its id where it has none
    RETURNING id, workspace, queue, lane, priority, created_at
),
accepted AS (
    INSERT INTO stepwell.events (run_id, seq, kind, path, attempt, at, payload)
    SELECT born.id, 1, 'accepted', '', 0, born.created_at, $20
    FROM born
),
queued AS (
    INSERT INTO stepwell.tickets (
        run_id, path, queue, needs, workspace, lane, priority, started, ending, not_before, due_at,
        head, base, at, wakes, losses, lost_lease, owner, lease
    )
    SELECT
        born.id, '', born.queue, $8, born.workspace, born.lane, born.priority, takers.id IS NOT NULL, false,
        born.created_at + $24::float8, born.created_at + $24::float8, 1, 1, born.created_at, 0, 0, '',
        takers.id, CASE WHEN takers.id IS NOT NULL THEN $18::text END
    FROM born
    LEFT JOIN takers ON true
    RETURNING run_id, at, owner IS NOT NULL AS taken
),
tagged AS (
    INSERT INTO stepwell.run_terms (run_id, term, workspace, created_at)
    SELECT born.id, m.term, born.workspace, born.created_at
    FROM born
    CROSS JOIN unnest($27::text[]) AS m (term)
)
SELECT run_id, at, taken
FROM queued;

-- name: reserve_numbers
-- Sorted by the caller. The rows are locked only until this statement has committed.
INSERT INTO stepwell.run_numbers AS n (workspace, workflow, last)
SELECT u.workspace, u.workflow, u.count
FROM unnest($1::text[], $2::text[], $3::int[]) WITH ORDINALITY AS u (workspace, workflow, count, i)
ORDER BY u.i
ON CONFLICT (workspace, workflow) DO UPDATE
SET last = n.last + excluded.last
RETURNING n.workspace, n.workflow, n.last;

-- name: return_numbers
UPDATE stepwell.run_numbers
SET last = $3
WHERE workspace = $1
    AND workflow = $2
    AND last = $4;

-- name: disabled_workflows
SELECT workspace, workflow
FROM stepwell.switches
WHERE NOT enabled;

-- name: find_keys
-- Must be a later statement than the one that met these keys: in that one the other starter's row is not
-- visible. It asks for the first key from there on instead of an equal one: for an equality the planner,
-- while the table is small, may choose the index of workspace and workflow, and would read all runs for
-- each key later.
SELECT k.i, r.id, r.digest
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (workspace, key, i)
CROSS JOIN LATERAL (
    SELECT x.id, x.digest, x.workspace, x.key
    FROM stepwell.runs AS x
    WHERE x.key <> '' AND (x.workspace, x.key) >= (k.workspace, k.key)
    ORDER BY x.workspace, x.key
    LIMIT 1
) AS r
WHERE k.key <> ''
    AND r.workspace = k.workspace
    AND r.key = k.key
UNION ALL
SELECT k.i, r.id, r.digest
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (id, key, i) -- a start without a key gives its id
CROSS JOIN LATERAL (SELECT x.id, x.digest FROM stepwell.runs AS x WHERE x.id = k.id) AS r
WHERE k.key = '';
