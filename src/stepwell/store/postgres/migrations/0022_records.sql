-- Typed values that a workspace keeps: collections, their records, and what records are found by.
CREATE TABLE stepwell.collections (
    workspace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    schema bytea NOT NULL,
    key text COLLATE "C" NOT NULL, -- the field that is unique; '': none
    find text[] NOT NULL,
    records bigint NOT NULL, -- how many there are
    created_at double precision NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    updated_at double precision NOT NULL,
    updated_by text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, name)
);

CREATE TABLE stepwell.records (
    workspace text COLLATE "C" NOT NULL,
    collection text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    key text COLLATE "C", -- the term of its key field
    body bytea NOT NULL,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    PRIMARY KEY (workspace, collection, id)
);

CREATE UNIQUE INDEX records_by_key ON stepwell.records (workspace, collection, key) WHERE key IS NOT NULL;

-- Indexed values as JSON; keyed hashes of them where a codec hides values.
CREATE TABLE stepwell.record_terms (
    workspace text COLLATE "C" NOT NULL,
    collection text COLLATE "C" NOT NULL,
    field text COLLATE "C" NOT NULL,
    term text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, collection, field, term, id)
);

CREATE INDEX record_terms_by_id ON stepwell.record_terms (workspace, collection, id);
