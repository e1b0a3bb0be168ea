-- Definitions of workflows, and the codec check.

-- name: put_definitions
-- A changed definition moves to the end of the order; an equal one keeps its place.
INSERT INTO stepwell.definitions AS d (
    workspace, name, version, kind, hash, body, input_schema, options, title, description, created_by, created_at
)
SELECT
    u.workspace, u.name, u.version, u.kind, u.hash, u.body, u.input_schema, u.options, u.title, u.description,
    u.created_by, coalesce($12::float8, extract(EPOCH FROM clock_timestamp())::float8)
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::bytea[], $8::bytea[],
    $9::text[], $10::text[], $11::text[]
) WITH ORDINALITY AS u (
    workspace, name, version, kind, hash, body, input_schema, options, title, description, created_by, i
)
ORDER BY u.i
ON CONFLICT (workspace, name, version) DO UPDATE
SET kind = excluded.kind, hash = excluded.hash, body = excluded.body, input_schema = excluded.input_schema,
    options = excluded.options, title = excluded.title, description = excluded.description, put_no = DEFAULT
WHERE (d.kind, d.hash, d.body, d.input_schema, d.options, d.title, d.description)
    IS DISTINCT FROM (
        excluded.kind, excluded.hash, excluded.body, excluded.input_schema, excluded.options, excluded.title,
        excluded.description
    );

-- name: swap_definition
-- The second caller waits for the first one's row, and then finds another hash, or that the row exists. An
-- equal definition keeps its place.
WITH changed AS (
    UPDATE stepwell.definitions
    SET kind = $4, hash = $5, body = $6, input_schema = $7, options = $8, title = $9, description = $10,
        put_no = DEFAULT
    WHERE workspace = $1
        AND name = $2
        AND version = $3
        AND $12 <> ''
        AND hash = $12
        AND (kind, hash, body, input_schema, options, title, description)
            IS DISTINCT FROM ($4, $5, $6, $7, $8, $9, $10)
    RETURNING true AS done
),
made AS (
    INSERT INTO stepwell.definitions (
        workspace, name, version, kind, hash, body, input_schema, options, title, description, created_by,
        created_at
    )
    SELECT
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,
        coalesce($13::float8, extract(EPOCH FROM clock_timestamp())::float8)
    WHERE $12 = ''
    ON CONFLICT DO NOTHING
    RETURNING true AS done
)
SELECT done FROM changed
UNION ALL
SELECT done FROM made;

-- name: drop_definitions
DELETE FROM stepwell.definitions
WHERE workspace = $1
    AND name = ANY ($2::text[])
RETURNING version;

-- name: read_definition
SELECT
    workspace, name, version, kind, hash, body, input_schema, options, title, description, created_at, created_by
FROM stepwell.definitions
WHERE workspace = $1
    AND name = $2
    AND ($3 = '' OR version = $3)
ORDER BY put_no DESC
LIMIT 1;

-- name: list_definitions
SELECT
    workspace, name, version, kind, hash, body, input_schema, options, title, description, created_at, created_by
FROM stepwell.definitions
WHERE workspace = $1
ORDER BY put_no;

-- name: list_named_definitions
SELECT
    workspace, name, version, kind, hash, body, input_schema, options, title, description, created_at, created_by
FROM stepwell.definitions
WHERE workspace = $1
    AND name = ANY ($2::text[])
ORDER BY put_no;

-- name: switch
-- A workflow without a row is enabled. No row comes back if it is as asked for.
INSERT INTO stepwell.switches AS s (workspace, workflow, enabled, switched_by, reason, at)
SELECT $2, $3, $4, $5, $6, coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8)
WHERE NOT $4::boolean
    OR EXISTS (SELECT FROM stepwell.switches AS x WHERE x.workspace = $2 AND x.workflow = $3)
ON CONFLICT (workspace, workflow) DO UPDATE
SET enabled = excluded.enabled, switched_by = excluded.switched_by, reason = excluded.reason, at = excluded.at
WHERE s.enabled <> excluded.enabled
RETURNING true;

-- name: list_switches
SELECT workspace, workflow, enabled, switched_by, reason, at
FROM stepwell.switches
WHERE workspace = $1
ORDER BY workflow;

-- name: read_codec_check
SELECT value
FROM stepwell.codec_check;

-- name: write_codec_check
-- Inserts the first check, or replaces the one that was read.
INSERT INTO stepwell.codec_check AS c (value)
SELECT $1::bytea
ON CONFLICT (one) DO UPDATE
SET value = excluded.value
WHERE c.value = $2::bytea
RETURNING true;
