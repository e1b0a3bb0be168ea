-- Credentials and the audit list.

-- name: put_credential
-- $16: sessions and links that expired before then are deleted.
WITH old AS (
    DELETE FROM stepwell.credentials
    WHERE kind <> 'key'
        AND expires_at <= $16
)
INSERT INTO stepwell.credentials (
    id, kind, workspace, name, principal, digest, scopes, roles, key, run_id, path, seq, created_at, created_by,
    expires_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT DO NOTHING;

-- name: read_credential
SELECT
    id, kind, name, digest, workspace, principal, scopes, roles, key, run_id, path, seq, created_at, created_by,
    expires_at, used_at, revoked_at, revoked_by
FROM stepwell.credentials
WHERE id = $1;

-- name: list_credentials
SELECT
    id, kind, name, digest, workspace, principal, scopes, roles, key, run_id, path, seq, created_at, created_by,
    expires_at, used_at, revoked_at, revoked_by
FROM stepwell.credentials
WHERE workspace = $1
    AND kind = $2
    AND ($3 = '' OR id < $3)
ORDER BY id DESC
LIMIT $4;

-- name: revoke_credential
UPDATE stepwell.credentials
SET revoked_at = $2, revoked_by = $3
WHERE id = $1
    AND revoked_at IS NULL
RETURNING 1;

-- name: mark_used
UPDATE stepwell.credentials
SET used_at = $2
WHERE id = ANY ($1::text[])
    AND (used_at IS NULL OR used_at < $2);

-- name: add_audit
INSERT INTO stepwell.audit (id, at, workspace, by, action, path, status, credential, address)
SELECT *
FROM unnest(
    $1::text[], $2::float8[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[], $8::text[], $9::text[]
)
ON CONFLICT DO NOTHING;

-- name: list_audit
SELECT id, at, workspace, by, action, path, status, credential, address
FROM stepwell.audit
WHERE workspace = $1
    AND ($2 = '' OR id < $2)
ORDER BY id DESC
LIMIT $3;
