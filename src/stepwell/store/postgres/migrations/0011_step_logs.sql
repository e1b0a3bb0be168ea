-- What the code of steps logged and printed.
CREATE TABLE stepwell.step_logs (
    run_id text COLLATE "C" NOT NULL,
    n bigint NOT NULL, -- counts the lines of the run
    path text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    key text COLLATE "C" NOT NULL, -- made by the writer: a line that is written twice counts once
    at double precision NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (run_id, n)
);

CREATE UNIQUE INDEX step_logs_path ON stepwell.step_logs (run_id, path, attempt, key);
