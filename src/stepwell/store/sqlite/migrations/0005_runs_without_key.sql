-- Most runs are started without a key: their id is what they are known by, and the index is spared.
DROP INDEX runs_key;

CREATE UNIQUE INDEX runs_key ON runs (workspace, key) WHERE key <> '';
