-- Triggers: what starts runs by itself.

-- name: create_trigger
INSERT INTO stepwell.triggers (
    id, type, name, workflow, version, workspace, settings, start, matches, paused, slot, next_at, origin,
    revision, created_at, created_by, updated_at, updated_by, state, last_run
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
ON CONFLICT DO NOTHING
RETURNING 1;

-- name: replace_trigger
UPDATE stepwell.triggers
SET workflow = $5, version = $6, settings = $7, start = $8, matches = $9, paused = $10, slot = $11, next_at = $12,
    origin = $13, revision = $14, updated_at = $15, updated_by = $16
WHERE workspace = $1
    AND type = $2
    AND name = $3
    AND revision = $4
RETURNING 1;

-- name: read_trigger
SELECT
    id, type, name, workflow, version, workspace, settings, start, matches, paused, slot, next_at, origin,
    revision, created_at, created_by, updated_at, updated_by, state, last_run
FROM stepwell.triggers
WHERE workspace = $1
    AND type = $2
    AND name = $3;

-- name: list_triggers
SELECT
    id, type, name, workflow, version, workspace, settings, start, matches, paused, slot, next_at, origin,
    revision, created_at, created_by, updated_at, updated_by, state, last_run
FROM stepwell.triggers
WHERE workspace = $1
    AND type = $2
    AND name > $3
    AND ($4 = '' OR origin = $4)
ORDER BY name
LIMIT $5;

-- name: list_triggers_of_workflow
SELECT
    id, type, name, workflow, version, workspace, settings, start, matches, paused, slot, next_at, origin,
    revision, created_at, created_by, updated_at, updated_by, state, last_run
FROM stepwell.triggers
WHERE workspace = $1
    AND type = $2
    AND name > $3
    AND ($4 = '' OR origin = $4)
    AND workflow = $6
    AND ($7 = '' OR matches = $7)
ORDER BY name
LIMIT $5;

-- name: list_triggers_matched
SELECT
    id, type, name, workflow, version, workspace, settings, start, matches, paused, slot, next_at, origin,
    revision, created_at, created_by, updated_at, updated_by, state, last_run
FROM stepwell.triggers
WHERE workspace = $1
    AND type = $2
    AND name > $3
    AND ($4 = '' OR origin = $4)
    AND matches = $6
    AND matches <> ''
ORDER BY name
LIMIT $5;

-- name: list_declared_triggers
SELECT
    id, type, name, workflow, version, workspace, settings, start, matches, paused, slot, next_at, origin,
    revision, created_at, created_by, updated_at, updated_by, state, last_run
FROM stepwell.triggers
WHERE workspace = $1
    AND origin = $2
    AND origin <> ''
ORDER BY type, name
LIMIT $3;

-- name: drop_trigger
DELETE FROM stepwell.triggers
WHERE workspace = $1
    AND type = $2
    AND name = $3
RETURNING 1;

-- name: next_trigger
SELECT
    coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now,
    (
        SELECT min(t.next_at)
        FROM stepwell.triggers AS t
        WHERE t.type = $2
            AND t.next_at IS NOT NULL
            AND ($3 = '' OR t.matches = $3)
    ) AS next_at;

-- name: due_triggers
-- Those that another scheduler has locked are being fired there.
SELECT
    t.id, t.type, t.name, t.workflow, t.version, t.workspace, t.settings, t.start, t.matches, t.paused, t.slot,
    t.next_at, t.origin, t.revision, t.created_at, t.created_by, t.updated_at, t.updated_by, t.state, t.last_run,
    EXISTS (SELECT FROM stepwell.tickets AS k WHERE k.run_id = t.last_run AND k.path = '') AS live
FROM stepwell.triggers AS t
WHERE t.type = $3
    AND t.next_at <= $1
    AND ($4 = '' OR t.matches = $4)
ORDER BY t.next_at, t.id
LIMIT $2
FOR NO KEY UPDATE OF t SKIP LOCKED;

-- name: definitions_of_triggers
-- The version that each asks for, or the latest one put.
SELECT
    wanted.i, d.workspace, d.name, d.version, d.kind, d.hash, d.body, d.input_schema, d.options, d.title,
    d.description, d.created_at, d.created_by
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS wanted (workspace, name, version, i)
CROSS JOIN LATERAL (
    SELECT each.*
    FROM stepwell.definitions AS each
    WHERE each.workspace = wanted.workspace
        AND each.name = wanted.name
        AND (wanted.version = '' OR each.version = wanted.version)
    ORDER BY each.put_no DESC
    LIMIT 1
) AS d;

-- name: fire_triggers
UPDATE stepwell.triggers AS t
SET slot = f.slot, next_at = f.next_at, state = f.state, last_run = f.last_run
FROM unnest($1::text[], $2::float8[], $3::float8[], $4::bytea[], $5::text[]) AS f (id, slot, next_at, state, last_run)
WHERE t.id = f.id;

-- name: advance_trigger
UPDATE stepwell.triggers
SET slot = $2, next_at = $3, state = $4, last_run = $5
WHERE id = $1
    AND state = $6
    AND paused IS NULL
RETURNING 1;
