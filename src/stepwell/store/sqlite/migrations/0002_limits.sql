-- Limits. Tickets of lanes leave the queue's indexes, so that those without one are claimed as fast as
-- before however many wait at a full limit.

CREATE TABLE limits (
    kind TEXT NOT NULL,
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    most INTEGER,
    hold TEXT NOT NULL,
    PRIMARY KEY (kind, workspace, name)
) STRICT, WITHOUT ROWID;

DROP INDEX tickets_open;
DROP INDEX tickets_solo;

CREATE INDEX tickets_open ON tickets (queue, needs, rank, due_at, run_id, path)
    WHERE lease IS NULL AND losses < 2 AND lane = '';

CREATE INDEX tickets_solo ON tickets (queue, needs, rank, due_at, run_id, path)
    WHERE lease IS NULL AND losses >= 2 AND lane = '';

CREATE INDEX tickets_lane ON tickets (lane, needs, rank, due_at, run_id)
    WHERE lease IS NULL AND losses < 2 AND lane <> '';

CREATE INDEX tickets_lane_solo ON tickets (lane, needs, rank, due_at, run_id)
    WHERE lease IS NULL AND losses >= 2 AND lane <> '';

CREATE INDEX tickets_held ON tickets (lane) WHERE lease IS NOT NULL AND lane <> '';
