-- What was released is kept too: since when, by whom and why.
ALTER TABLE stepwell.holds ADD COLUMN held boolean NOT NULL DEFAULT true;

-- Lanes that no limit counts: of test runs and remote steps, which can only be held.
DROP FUNCTION stepwell.plain_lane(text, text, text, boolean);

CREATE FUNCTION stepwell.plain_lane(workspace text, workflow text, queue text, child boolean, exempt boolean)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT format(
        '[%s,%s,%s,"",null,null,null,"active"%s]',
        to_json(workspace), to_json(workflow), to_json(queue),
        CASE WHEN exempt THEN format(',%s,true', to_json(child)) WHEN child THEN ',true' END
    )
$$;
