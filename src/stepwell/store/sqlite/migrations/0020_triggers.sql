-- What starts runs by itself.
CREATE TABLE triggers (
    id TEXT NOT NULL PRIMARY KEY,
    workspace TEXT NOT NULL,
    type TEXT NOT NULL, -- schedule, event or one of a program
    name TEXT NOT NULL,
    workflow TEXT NOT NULL,
    version TEXT NOT NULL, -- '': the latest
    settings BLOB NOT NULL, -- JSON that only its type reads
    start BLOB NOT NULL, -- JSON: input and options of its runs
    matches TEXT NOT NULL, -- what finds it, such as the name of an event
    paused BLOB, -- JSON: who paused it, when and why
    slot REAL, -- the next time that its schedule names
    next_at REAL, -- when it is due; NULL: not by time
    origin TEXT NOT NULL, -- the graph that declares it
    revision INTEGER NOT NULL,
    created_at REAL NOT NULL,
    created_by TEXT NOT NULL,
    updated_at REAL NOT NULL,
    updated_by TEXT NOT NULL,
    state BLOB NOT NULL, -- JSON that firing writes
    last_run TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX triggers_named ON triggers (workspace, type, name);

CREATE INDEX triggers_of_workflow ON triggers (workspace, type, workflow, name);

CREATE INDEX triggers_matched ON triggers (workspace, type, matches, name) WHERE matches <> '';

CREATE INDEX triggers_due ON triggers (next_at, id) WHERE next_at IS NOT NULL;
