-- What starts runs by itself.
CREATE TABLE stepwell.triggers (
    id text COLLATE "C" PRIMARY KEY,
    workspace text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL, -- schedule, event or one of a program
    name text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL, -- '': the latest
    settings bytea NOT NULL, -- JSON that only its type reads
    start bytea NOT NULL, -- JSON: input and options of its runs
    matches text COLLATE "C" NOT NULL, -- what finds it, such as the name of an event
    paused bytea, -- JSON: who paused it, when and why
    slot double precision, -- the next time that its schedule names
    next_at double precision, -- when it is due; NULL: not by time
    origin text COLLATE "C" NOT NULL, -- the graph that declares it
    revision integer NOT NULL,
    created_at double precision NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    updated_at double precision NOT NULL,
    updated_by text COLLATE "C" NOT NULL,
    state bytea NOT NULL, -- JSON that firing writes
    last_run text COLLATE "C" NOT NULL
);

CREATE UNIQUE INDEX triggers_named ON stepwell.triggers (workspace, type, name);

CREATE INDEX triggers_of_workflow ON stepwell.triggers (workspace, type, workflow, name);

CREATE INDEX triggers_matched ON stepwell.triggers (workspace, type, matches, name) WHERE matches <> '';

CREATE INDEX triggers_due ON stepwell.triggers (next_at, id) WHERE next_at IS NOT NULL;
