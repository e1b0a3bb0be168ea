-- Most runs are started without a key: their id is what they are known by, and the index is spared.
DROP INDEX stepwell.runs_key;

CREATE UNIQUE INDEX runs_key ON stepwell.runs (workspace, key) WHERE key <> '';
