-- The time of an event is its place among those of its name: no two may have the same.
UPDATE published_events
SET at = at + tied.place * 0.00000025
FROM (
    SELECT id, row_number() OVER (PARTITION BY name, at ORDER BY id) - 1 AS place
    FROM published_events
) AS tied
WHERE tied.id = published_events.id AND tied.place > 0;

CREATE INDEX waits_cursor ON waits (name, key, since) WHERE kind IN ('event', 'cursor');
