-- Start rates: windows that all processes share. And lanes for runs that bring no limit along.

CREATE TABLE stepwell.start_windows (
    name text COLLATE "C" NOT NULL,
    seconds double precision NOT NULL,
    starts text COLLATE "C" NOT NULL, -- JSON: when and how many
    until double precision NOT NULL, -- then none of them counts any more
    PRIMARY KEY (name, seconds)
)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX start_windows_until ON stepwell.start_windows (until);

-- When the next ticket of a lane is due, for each kind of work: so that runs which are suspended cost a claim
-- no look at the lanes. The last condition keeps the planner from using it for anything else.
CREATE INDEX tickets_lane_due ON stepwell.tickets (solo, queue, needs, due_at)
    WHERE lease IS NULL AND lane <> '' AND due_at < 'Infinity';

-- The lane of a run that brings no limit along; the same text as Lane.text in domain/limits.py.
CREATE FUNCTION stepwell.plain_lane(workspace text, workflow text, queue text, child boolean) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT format(
        '[%s,%s,%s,"",null,null,null,"active"%s]',
        to_json(workspace), to_json(workflow), to_json(queue), CASE WHEN child THEN ',true' END
    )
$$;
