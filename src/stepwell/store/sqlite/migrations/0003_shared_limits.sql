-- Start rates: windows that all processes share.

CREATE TABLE start_windows (
    name TEXT NOT NULL,
    seconds REAL NOT NULL,
    starts TEXT NOT NULL, -- JSON: when and how many
    until REAL NOT NULL, -- then none of them counts any more
    PRIMARY KEY (name, seconds)
) STRICT, WITHOUT ROWID;

CREATE INDEX start_windows_until ON start_windows (until);
