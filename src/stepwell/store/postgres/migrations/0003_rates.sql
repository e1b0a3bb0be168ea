-- Start rates: windows that all processes share.

CREATE TABLE stepwell.start_windows (
    name text COLLATE "C" NOT NULL,
    seconds double precision NOT NULL,
    starts text COLLATE "C" NOT NULL, -- JSON: when and how many
    until double precision NOT NULL, -- then none of them counts any more
    PRIMARY KEY (name, seconds)
)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX start_windows_until ON stepwell.start_windows (until);
