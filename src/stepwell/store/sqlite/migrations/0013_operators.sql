-- What operators ask for: held runs, workflows, queues and workspaces, and workers that are to stop. A held
-- ticket is in no index of the queue, so claims do not meet it.
ALTER TABLE tickets ADD COLUMN held BLOB;

DROP INDEX tickets_open;
DROP INDEX tickets_solo;
DROP INDEX tickets_lane;
DROP INDEX tickets_lane_solo;
DROP INDEX tickets_lane_due;

CREATE INDEX tickets_open ON tickets (queue, needs, rank, due_at, run_id, path)
    WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane = '';

CREATE INDEX tickets_solo ON tickets (queue, needs, rank, due_at, run_id, path)
    WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane = '';

CREATE INDEX tickets_lane ON tickets (lane, needs, rank, due_at, run_id)
    WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '';

CREATE INDEX tickets_lane_solo ON tickets (lane, needs, rank, due_at, run_id)
    WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane <> '';

CREATE INDEX tickets_lane_due ON tickets (due_at) WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '';

CREATE INDEX tickets_on_hold ON tickets (lane) WHERE held IS NOT NULL;

CREATE TABLE holds (
    kind TEXT NOT NULL, -- workspace, workflow or queue
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    held_by TEXT NOT NULL,
    reason BLOB NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (kind, workspace, name)
) STRICT, WITHOUT ROWID;

ALTER TABLE workers ADD COLUMN drain BLOB;
