-- Collections and their records.

-- name: lock_collections
-- One transaction at a time adds a collection to a workspace, so that their number is right.
SELECT pg_advisory_xact_lock(hashtextextended('stepwell.collections ' || $1, 0));

-- name: count_collections
SELECT count(*)
FROM stepwell.collections
WHERE workspace = $1;

-- name: create_collection
INSERT INTO stepwell.collections (
    workspace, name, version, schema, key, find, records, created_at, created_by, updated_at, updated_by
)
VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $8, $9, $10);

-- name: replace_collection
UPDATE stepwell.collections
SET version = $3, schema = $4, key = $5, find = $6, updated_at = $7, updated_by = $8
WHERE workspace = $1
    AND name = $2;

-- name: read_collection
SELECT
    name, workspace, version, schema, key, find, records, created_at, created_by, updated_at, updated_by
FROM stepwell.collections
WHERE workspace = $1
    AND name = $2;

-- name: lock_collection
-- Records are added and deleted one after the other, so that their number is right.
SELECT
    name, workspace, version, schema, key, find, records, created_at, created_by, updated_at, updated_by
FROM stepwell.collections
WHERE workspace = $1
    AND name = $2
FOR NO KEY UPDATE;

-- name: list_collections
SELECT
    name, workspace, version, schema, key, find, records, created_at, created_by, updated_at, updated_by
FROM stepwell.collections
WHERE workspace = $1
    AND name > $2
ORDER BY name
LIMIT $3;

-- name: drop_collection
DELETE FROM stepwell.collections
WHERE workspace = $1
    AND name = $2;

-- name: clear_collection
WITH first AS MATERIALIZED (
    SELECT r.id
    FROM stepwell.records AS r
    WHERE r.workspace = $1
        AND r.collection = $2
    ORDER BY r.id
    LIMIT $3
),

terms AS (
    DELETE FROM stepwell.record_terms AS m
    WHERE m.workspace = $1
        AND m.collection = $2
        AND m.id IN (SELECT first.id FROM first)
)

DELETE FROM stepwell.records AS r
WHERE r.workspace = $1
    AND r.collection = $2
    AND r.id IN (SELECT first.id FROM first)
RETURNING r.id;

-- name: count_records
UPDATE stepwell.collections
SET records = records + $3
WHERE workspace = $1
    AND name = $2;

-- name: read_clock
SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now;

-- name: read_record
SELECT workspace, collection, id, version, body, key, created_at, updated_at
FROM stepwell.records
WHERE workspace = $1
    AND collection = $2
    AND id = $3;

-- name: lock_record
SELECT workspace, collection, id, version, body, key, created_at, updated_at
FROM stepwell.records
WHERE workspace = $1
    AND collection = $2
    AND id = $3
FOR UPDATE;

-- name: read_record_by_key
SELECT workspace, collection, id, version, body, key, created_at, updated_at
FROM stepwell.records
WHERE workspace = $1
    AND collection = $2
    AND key = ANY ($3::text[])
LIMIT 1;

-- name: lock_record_by_key
SELECT workspace, collection, id, version, body, key, created_at, updated_at
FROM stepwell.records
WHERE workspace = $1
    AND collection = $2
    AND key = ANY ($3::text[])
LIMIT 1
FOR UPDATE;

-- name: put_record
WITH old_terms AS (
    DELETE FROM stepwell.record_terms AS m
    WHERE m.workspace = $1
        AND m.collection = $2
        AND m.id = $3
        AND (m.field, m.term) NOT IN (SELECT n.field, n.term FROM unnest($9::text[], $10::text[]) AS n (field, term))
),

new_terms AS (
    INSERT INTO stepwell.record_terms (workspace, collection, field, term, id)
    SELECT $1, $2, n.field, n.term, $3
    FROM unnest($9::text[], $10::text[]) AS n (field, term)
    ON CONFLICT DO NOTHING
)

INSERT INTO stepwell.records AS r (workspace, collection, id, version, body, key, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (workspace, collection, id) DO UPDATE
SET version = $4, body = $5, key = $6, updated_at = $8;

-- name: drop_record
WITH terms AS (
    DELETE FROM stepwell.record_terms AS m
    WHERE m.workspace = $1
        AND m.collection = $2
        AND m.id = $3
)

DELETE FROM stepwell.records AS r
WHERE r.workspace = $1
    AND r.collection = $2
    AND r.id = $3;

-- name: list_records
SELECT workspace, collection, id, version, body, key, created_at, updated_at
FROM stepwell.records
WHERE workspace = $1
    AND collection = $2
    AND id > $3
ORDER BY id
LIMIT $4;

-- name: find_records
-- Walks the records of one term in the order of their ids; each must have the other terms, too.
SELECT r.workspace, r.collection, r.id, r.version, r.body, r.key, r.created_at, r.updated_at
FROM stepwell.record_terms AS m
INNER JOIN stepwell.records AS r ON r.workspace = m.workspace
    AND r.collection = m.collection
    AND r.id = m.id
WHERE m.workspace = $1
    AND m.collection = $2
    AND m.field = $5
    AND m.term = $6
    AND m.id > $3
    AND NOT EXISTS (
        SELECT
        FROM unnest($7::text[], $8::text[]) AS other (field, term)
        WHERE NOT EXISTS (
            SELECT
            FROM stepwell.record_terms AS o
            WHERE o.workspace = m.workspace
                AND o.collection = m.collection
                AND o.field = other.field
                AND o.term = other.term
                AND o.id = m.id
        )
    )
ORDER BY m.id
LIMIT $4;
