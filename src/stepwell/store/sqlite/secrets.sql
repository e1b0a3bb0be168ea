-- Sealed values by name.

-- name: put_secret
-- Writes the next version only: of two callers, one comes first.
INSERT INTO secrets (workspace, name, version, key, wrapped, body, use, header, hosts, created_at, created_by)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
WHERE ?3 = 1
    OR EXISTS (
        SELECT 1
        FROM secrets
        WHERE workspace = ?1
            AND name = ?2
    )
ON CONFLICT (workspace, name) DO UPDATE
SET version = ?3, key = ?4, wrapped = ?5, body = ?6, use = ?7, header = ?8, hosts = ?9, created_at = ?10,
    created_by = ?11
WHERE version = ?3 - 1
RETURNING 1;

-- name: read_secret
SELECT name, version, key, wrapped, body, workspace, use, header, hosts, created_at, created_by
FROM secrets
WHERE workspace = ?1
    AND name = ?2;

-- name: list_secrets
SELECT name, version, key, wrapped, body, workspace, use, header, hosts, created_at, created_by
FROM secrets
WHERE workspace = ?1
    AND name > ?2
ORDER BY name
LIMIT ?3;

-- name: drop_secret
DELETE FROM secrets
WHERE workspace = ?1
    AND name = ?2
RETURNING 1;

-- name: read_outdated_secrets
SELECT name, version, key, wrapped, body, workspace, use, header, hosts, created_at, created_by
FROM secrets
WHERE key <> ?1
ORDER BY workspace, name
LIMIT ?2;

-- name: rewrap_secret
UPDATE secrets
SET key = ?4, wrapped = ?5
WHERE workspace = ?1
    AND name = ?2
    AND version = ?3
    AND key <> ?4
RETURNING 1;
