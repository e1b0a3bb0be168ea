-- Who may call the server, and the list of what they asked for.
CREATE TABLE stepwell.credentials (
    id text COLLATE "C" PRIMARY KEY,
    kind text COLLATE "C" NOT NULL, -- key, session or link
    workspace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    principal text COLLATE "C" NOT NULL, -- person or service
    digest text COLLATE "C" NOT NULL, -- SHA-256 of the secret
    scopes text[] NOT NULL,
    roles text[] NOT NULL,
    key text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    created_at double precision NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    expires_at double precision,
    used_at double precision,
    revoked_at double precision,
    revoked_by text COLLATE "C" NOT NULL DEFAULT ''
);

CREATE INDEX credentials_listed ON stepwell.credentials (workspace, kind, id);

CREATE INDEX credentials_expired ON stepwell.credentials (expires_at) WHERE kind <> 'key';

CREATE TABLE stepwell.audit (
    id text COLLATE "C" NOT NULL,
    at double precision NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    by text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    status integer NOT NULL,
    credential text COLLATE "C" NOT NULL,
    address text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, id)
);
