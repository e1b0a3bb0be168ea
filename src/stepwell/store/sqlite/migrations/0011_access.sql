-- Who may call the server, and the list of what they asked for.
CREATE TABLE credentials (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL, -- key, session or link
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    principal TEXT NOT NULL, -- person or service
    digest TEXT NOT NULL, -- SHA-256 of the secret
    scopes TEXT NOT NULL, -- JSON
    roles TEXT NOT NULL, -- JSON
    key TEXT NOT NULL,
    run_id TEXT NOT NULL,
    path TEXT NOT NULL,
    seq INTEGER NOT NULL,
    created_at REAL NOT NULL,
    created_by TEXT NOT NULL,
    expires_at REAL,
    used_at REAL,
    revoked_at REAL,
    revoked_by TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE INDEX credentials_listed ON credentials (workspace, kind, id);

CREATE INDEX credentials_expired ON credentials (expires_at) WHERE kind <> 'key';

CREATE TABLE audit (
    id TEXT NOT NULL,
    at REAL NOT NULL,
    workspace TEXT NOT NULL,
    "by" TEXT NOT NULL,
    action TEXT NOT NULL,
    path TEXT NOT NULL,
    status INTEGER NOT NULL,
    credential TEXT NOT NULL,
    address TEXT NOT NULL,
    PRIMARY KEY (workspace, id)
) STRICT, WITHOUT ROWID;
