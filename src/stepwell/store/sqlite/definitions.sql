-- Definitions of workflows, and the codec check.

-- name: delete_definition
-- Only if it differs: an unchanged definition keeps its place in the order.
DELETE FROM definitions
WHERE workspace = ?1 AND name = ?2 AND version = ?3
    AND (kind, hash, body, input_schema, options, title, description) IS NOT (?4, ?5, ?6, ?7, ?8, ?9, ?10)
RETURNING created_at, created_by;

-- name: insert_definition
INSERT INTO definitions (
    workspace, name, version, kind, hash, body, input_schema, options, title, description, created_at, created_by
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: drop_definitions
DELETE FROM definitions
WHERE workspace = ?1 AND name IN (SELECT value FROM json_each(?2))
RETURNING version;

-- name: read_definition
SELECT
    name, version, kind, hash, body, input_schema, options, workspace, title, description, created_at, created_by
FROM definitions
WHERE workspace = ?1 AND name = ?2 AND (?3 = '' OR version = ?3)
ORDER BY n DESC
LIMIT 1;

-- name: list_definitions
SELECT
    name, version, kind, hash, body, input_schema, options, workspace, title, description, created_at, created_by
FROM definitions
WHERE workspace = ?1
ORDER BY n;

-- name: list_named_definitions
SELECT
    name, version, kind, hash, body, input_schema, options, workspace, title, description, created_at, created_by
FROM definitions
WHERE workspace = ?1 AND name IN (SELECT value FROM json_each(?2))
ORDER BY n;

-- name: read_switch
SELECT enabled
FROM switches
WHERE workspace = ?1 AND workflow = ?2;

-- name: put_switch
INSERT OR REPLACE INTO switches (workspace, workflow, enabled, switched_by, reason, at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: list_switches
SELECT workspace, workflow, enabled, switched_by, reason, at
FROM switches
WHERE workspace = ?1
ORDER BY workflow;

-- name: read_codec_check
SELECT value
FROM codec_check;

-- name: write_codec_check
-- Inserts the first check, or replaces the one that was read.
INSERT INTO codec_check (id, value)
SELECT 1, ?1
WHERE true
ON CONFLICT (id) DO UPDATE
SET value = excluded.value
WHERE codec_check.value = ?2
RETURNING 1;
