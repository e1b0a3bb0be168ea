-- What operators ask for: held runs, workflows, queues and workspaces, and workers that are to stop. A held
-- ticket is in no index of the queue, so claims do not meet it.
ALTER TABLE stepwell.tickets ADD COLUMN held bytea;

DROP INDEX stepwell.tickets_open;
DROP INDEX stepwell.tickets_lane;
DROP INDEX stepwell.tickets_lane_due;

CREATE INDEX tickets_open
    ON stepwell.tickets (solo, queue, needs, started DESC, priority DESC, due_at, run_id, path)
    WHERE lease IS NULL AND held IS NULL AND lane = '';

CREATE INDEX tickets_lane
    ON stepwell.tickets (solo, lane, needs, started DESC, priority DESC, due_at, run_id, path)
    WHERE lease IS NULL AND held IS NULL AND lane <> '';

CREATE INDEX tickets_lane_due ON stepwell.tickets (solo, queue, needs, due_at)
    WHERE lease IS NULL AND held IS NULL AND lane <> '' AND due_at < 'Infinity';

CREATE INDEX tickets_on_hold ON stepwell.tickets (lane) WHERE held IS NOT NULL;

CREATE TABLE stepwell.holds (
    kind text COLLATE "C" NOT NULL, -- workspace, workflow or queue
    workspace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    held_by text COLLATE "C" NOT NULL,
    reason bytea NOT NULL,
    at double precision NOT NULL,
    PRIMARY KEY (kind, workspace, name)
);

ALTER TABLE stepwell.workers ADD COLUMN drain bytea;
