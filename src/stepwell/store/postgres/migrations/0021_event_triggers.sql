-- Events start runs: how many runs led to one another before them; triggers by type, and those that workflows declare.
ALTER TABLE stepwell.published_events ADD COLUMN hops integer NOT NULL DEFAULT 0;

DROP INDEX stepwell.triggers_due;

CREATE INDEX triggers_due ON stepwell.triggers (type, next_at, id) WHERE next_at IS NOT NULL;

CREATE INDEX triggers_declared ON stepwell.triggers (workspace, origin, type, name) WHERE origin <> '';
