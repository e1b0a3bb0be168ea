-- The time of an event is its place among those of its name: no two may have the same.
UPDATE stepwell.published_events AS p
SET at = p.at + tied.place * 0.00000025
FROM (
    SELECT id, row_number() OVER (PARTITION BY name, at ORDER BY id) - 1 AS place
    FROM stepwell.published_events
) AS tied
WHERE tied.id = p.id
    AND tied.place > 0;

CREATE TABLE stepwell.event_names (
    name text COLLATE "C" PRIMARY KEY,
    first_at double precision NOT NULL,
    last_at double precision NOT NULL
)
WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000
);

INSERT INTO stepwell.event_names (name, first_at, last_at)
SELECT name, max(at), max(at)
FROM stepwell.published_events
GROUP BY name;

CREATE INDEX waits_cursor ON stepwell.waits (name, key, since) WHERE kind IN ('event', 'cursor');
