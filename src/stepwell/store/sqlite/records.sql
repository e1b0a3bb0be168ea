-- Collections and their records.

-- name: count_collections
SELECT count(*)
FROM collections
WHERE workspace = ?1;

-- name: create_collection
INSERT INTO collections (
    workspace, name, version, schema, key, find, records, created_at, created_by, updated_at, updated_by
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9, ?10)
ON CONFLICT DO NOTHING;

-- name: replace_collection
UPDATE collections
SET version = ?4, schema = ?5, key = ?6, find = ?7, updated_at = ?8, updated_by = ?9
WHERE workspace = ?1
    AND name = ?2
    AND version = ?3
RETURNING 1;

-- name: read_collection
SELECT name, workspace, version, schema, key, find, records, created_at, created_by, updated_at, updated_by
FROM collections
WHERE workspace = ?1
    AND name = ?2;

-- name: list_collections
SELECT name, workspace, version, schema, key, find, records, created_at, created_by, updated_at, updated_by
FROM collections
WHERE workspace = ?1
    AND name > ?2
ORDER BY name
LIMIT ?3;

-- name: drop_collection
DELETE FROM collections
WHERE workspace = ?1
    AND name = ?2;

-- name: count_records
UPDATE collections
SET records = records + ?3
WHERE workspace = ?1
    AND name = ?2;

-- name: read_record
SELECT workspace, collection, id, version, body, key, created_at, updated_at
FROM records
WHERE workspace = ?1
    AND collection = ?2
    AND id = ?3;

-- name: read_record_by_key
SELECT workspace, collection, id, version, body, key, created_at, updated_at
FROM records
WHERE workspace = ?1
    AND collection = ?2
    AND key IN (
        SELECT value
        FROM json_each(?3)
    )
LIMIT 1;

-- name: put_record
INSERT INTO records (workspace, collection, id, version, body, key, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (workspace, collection, id) DO UPDATE
SET version = ?4, body = ?5, key = ?6, updated_at = ?8;

-- name: drop_record
DELETE FROM records
WHERE workspace = ?1
    AND collection = ?2
    AND id = ?3;

-- name: put_record_term
INSERT INTO record_terms (workspace, collection, field, term, id)
VALUES (?1, ?2, ?3, ?4, ?5);

-- name: drop_record_terms
DELETE FROM record_terms
WHERE workspace = ?1
    AND collection = ?2
    AND id = ?3;

-- name: first_records
SELECT id
FROM records
WHERE workspace = ?1
    AND collection = ?2
ORDER BY id
LIMIT ?3;

-- name: list_records
SELECT workspace, collection, id, version, body, key, created_at, updated_at
FROM records
WHERE workspace = ?1
    AND collection = ?2
    AND id > ?3
ORDER BY id
LIMIT ?4;

-- name: find_records
-- Walks the records of one term in the order of their ids; each must have the other terms, too.
SELECT r.workspace, r.collection, r.id, r.version, r.body, r.key, r.created_at, r.updated_at
FROM record_terms AS m
CROSS JOIN records AS r ON r.workspace = m.workspace
    AND r.collection = m.collection
    AND r.id = m.id
WHERE m.workspace = ?1
    AND m.collection = ?2
    AND m.field = ?5
    AND m.term = ?6
    AND m.id > ?3
    AND NOT EXISTS (
        SELECT 1
        FROM json_each(?7) AS other
        WHERE NOT EXISTS (
            SELECT 1
            FROM record_terms AS o
            WHERE o.workspace = m.workspace
                AND o.collection = m.collection
                AND o.field = json_extract(other.value, '$[0]')
                AND o.term = json_extract(other.value, '$[1]')
                AND o.id = m.id
        )
    )
ORDER BY m.id
LIMIT ?4;
