-- A file that is moved to another database.

-- name: read_mark
SELECT token, place
FROM moved;

-- name: mark_moving
INSERT INTO moved (id, token, state, place, at)
VALUES (1, ?, 'moving', ?, ?);

-- name: mark_moved
UPDATE moved
SET state = 'moved', at = ?;

-- name: unmark
DELETE FROM moved;

-- name: list_tables
SELECT name
FROM sqlite_schema
WHERE type = 'table' AND name NOT LIKE 'sqlite%';

-- name: list_columns
-- Without generated ones.
SELECT name
FROM pragma_table_info(?);

-- name: count_all
-- All runs, those that have not ended, all events, and the runs with an id up to ?1.
SELECT
    (SELECT count(*) FROM runs),
    (SELECT count(*) FROM runs WHERE status NOT IN ('completed', 'failed', 'cancelled', 'timed_out')),
    (SELECT count(*) FROM events),
    (SELECT count(*) FROM runs WHERE id <= ?1);
