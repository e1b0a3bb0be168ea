-- Events start runs: how many runs led to one another before them; triggers by type, and those that workflows declare.
ALTER TABLE published_events ADD COLUMN hops INTEGER NOT NULL DEFAULT 0;

DROP INDEX triggers_due;

CREATE INDEX triggers_due ON triggers (type, next_at, id) WHERE next_at IS NOT NULL;

CREATE INDEX triggers_declared ON triggers (workspace, origin, type, name) WHERE origin <> '';
