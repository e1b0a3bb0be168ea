-- Values that nodes and steps use by name. Nobody can read them without the key that is outside the database.
CREATE TABLE secrets (
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    key TEXT NOT NULL, -- which key outside the database `wrapped` is sealed with
    wrapped BLOB NOT NULL,
    body BLOB NOT NULL,
    use TEXT NOT NULL, -- bearer, basic or header
    header TEXT NOT NULL,
    hosts TEXT NOT NULL, -- JSON
    created_at REAL NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (workspace, name)
) STRICT, WITHOUT ROWID;
