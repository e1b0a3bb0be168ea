-- Credentials and the audit list.

-- name: put_credential
INSERT INTO credentials (
    id, kind, workspace, name, principal, digest, scopes, roles, key, run_id, path, seq, created_at, created_by,
    expires_at
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: drop_old_credentials
DELETE FROM credentials
WHERE kind <> 'key' AND expires_at <= ?1;

-- name: read_credential
SELECT
    id, kind, name, digest, workspace, principal, scopes, roles, key, run_id, path, seq, created_at, created_by,
    expires_at, used_at, revoked_at, revoked_by
FROM credentials
WHERE id = ?1;

-- name: list_credentials
SELECT
    id, kind, name, digest, workspace, principal, scopes, roles, key, run_id, path, seq, created_at, created_by,
    expires_at, used_at, revoked_at, revoked_by
FROM credentials
WHERE workspace = ?1 AND kind = ?2 AND (?3 = '' OR id < ?3)
ORDER BY id DESC
LIMIT ?4;

-- name: revoke_credential
UPDATE credentials
SET revoked_at = ?2, revoked_by = ?3
WHERE id = ?1 AND revoked_at IS NULL
RETURNING 1;

-- name: mark_used
UPDATE credentials
SET used_at = ?2
WHERE id IN (SELECT value FROM json_each(?1)) AND (used_at IS NULL OR used_at < ?2);

-- name: add_audit
INSERT INTO audit (id, at, workspace, "by", action, path, status, credential, address)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: list_audit
SELECT id, at, workspace, "by", action, path, status, credential, address
FROM audit
WHERE workspace = ?1 AND (?2 = '' OR id < ?2)
ORDER BY id DESC
LIMIT ?3;
