-- Values that nodes and steps use by name. Nobody can read them without the key that is outside the database.
CREATE TABLE stepwell.secrets (
    workspace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    key text COLLATE "C" NOT NULL, -- which key outside the database `wrapped` is sealed with
    wrapped bytea NOT NULL,
    body bytea NOT NULL,
    use text COLLATE "C" NOT NULL, -- bearer, basic or header
    header text COLLATE "C" NOT NULL,
    hosts text[] NOT NULL,
    created_at double precision NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, name)
);
