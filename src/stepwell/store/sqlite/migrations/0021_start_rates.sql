-- Start rates that are set while engines run.
CREATE TABLE start_rates (
    per TEXT NOT NULL, -- workflow or user
    seconds REAL NOT NULL,
    most INTEGER, -- nothing: no rate, whatever engines were given
    set_by TEXT NOT NULL,
    PRIMARY KEY (per, seconds)
) STRICT, WITHOUT ROWID;
