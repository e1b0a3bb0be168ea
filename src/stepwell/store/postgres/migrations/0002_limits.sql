-- Limits. Tickets of lanes leave the queue's index, so that those without one are claimed as fast as before
-- however many wait at a full limit.

CREATE TABLE stepwell.limits (
    kind text COLLATE "C" NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    most integer,
    hold text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, workspace, name)
);

DROP INDEX stepwell.tickets_open;

CREATE INDEX tickets_open
    ON stepwell.tickets (solo, queue, needs, started DESC, priority DESC, due_at, run_id, path)
    WHERE lease IS NULL AND lane = '';

CREATE INDEX tickets_lane
    ON stepwell.tickets (solo, lane, needs, started DESC, priority DESC, due_at, run_id, path)
    WHERE lease IS NULL AND lane <> '';

CREATE INDEX tickets_held ON stepwell.tickets (lane) WHERE lease IS NOT NULL AND lane <> '';
