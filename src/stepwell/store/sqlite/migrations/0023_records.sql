-- Typed values that a workspace keeps: collections, their records, and what records are found by.
CREATE TABLE collections (
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    schema BLOB NOT NULL,
    key TEXT NOT NULL, -- the field that is unique; '': none
    find TEXT NOT NULL, -- JSON
    records INTEGER NOT NULL, -- how many there are
    created_at REAL NOT NULL,
    created_by TEXT NOT NULL,
    updated_at REAL NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (workspace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE records (
    workspace TEXT NOT NULL,
    collection TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    key TEXT, -- the term of its key field
    body BLOB NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    PRIMARY KEY (workspace, collection, id)
) STRICT;

CREATE UNIQUE INDEX records_by_key ON records (workspace, collection, key) WHERE key IS NOT NULL;

-- Indexed values as JSON; keyed hashes of them where a codec hides values.
CREATE TABLE record_terms (
    workspace TEXT NOT NULL,
    collection TEXT NOT NULL,
    field TEXT NOT NULL,
    term TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (workspace, collection, field, term, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX record_terms_by_id ON record_terms (workspace, collection, id);
