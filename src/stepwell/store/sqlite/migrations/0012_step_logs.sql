-- What the code of steps logged and printed.
CREATE TABLE step_logs (
    run_id TEXT NOT NULL,
    n INTEGER NOT NULL, -- counts the lines of the run
    path TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    key TEXT NOT NULL, -- made by the writer: a line that is written twice counts once
    at REAL NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (run_id, n)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX step_logs_path ON step_logs (run_id, path, attempt, key);
