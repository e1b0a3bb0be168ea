-- Whether the content of this file has gone to another database.
CREATE TABLE moved (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    token TEXT NOT NULL, -- the same on both sides
    state TEXT NOT NULL, -- moving or moved
    place TEXT NOT NULL, -- where it goes
    at REAL NOT NULL
) STRICT;
