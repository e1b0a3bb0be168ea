-- Claiming tickets. Statements come in pairs: `open_` for tickets that go in batches, `solo_` for tickets
-- that lost two owners and are taken alone.

-- name: open_groups
-- The groups of tickets that a claim could take, each with its earliest due time. Jumps from group to group
-- along the index: the cost is groups, not tickets (0.06 ms with 110,000 of them). A single jump over
-- (needs, rank) read the backlog: SQLite bounds such a pair by its first column only (90 to 250 ms).
-- The first row has no rank and exists if the worker does. Its last three columns say whether these leases
-- took something before, whether there are tickets of lanes, and whether limits were set or something is held.
WITH RECURSIVE
kinds (queue, needs) AS (
    SELECT wanted.value, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane = '' AND queue = wanted.value
    )
    FROM json_each(?1) AS wanted
    UNION ALL
    SELECT kinds.queue, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane = '' AND queue = kinds.queue AND needs > kinds.needs
    )
    FROM kinds
    WHERE kinds.needs IS NOT NULL
),
ranks (queue, needs, rank) AS (
    SELECT kinds.queue, kinds.needs, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane = '' AND queue = kinds.queue AND needs = kinds.needs
    )
    FROM kinds
    WHERE kinds.needs IN (SELECT value FROM json_each(?2))
    UNION ALL
    SELECT ranks.queue, ranks.needs, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane = '' AND queue = ranks.queue AND needs = ranks.needs
            AND rank > ranks.rank
    )
    FROM ranks
    WHERE ranks.rank IS NOT NULL
)
SELECT NULL AS queue, NULL AS needs, NULL AS rank, EXISTS (
    SELECT 1
    FROM json_each(?4) AS wanted
    CROSS JOIN tickets ON tickets.owner = ?3 AND tickets.lease = wanted.value
) AS due_at, EXISTS (
    SELECT 1
    FROM tickets
    WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '' AND lane > ''
) AS lanes, (
    EXISTS (SELECT 1 FROM limits WHERE most IS NOT NULL AND kind <> 'key') OR EXISTS (SELECT 1 FROM holds WHERE held = 1)
) AS limits
FROM workers
WHERE id = ?3
UNION ALL
SELECT ranks.queue, ranks.needs, ranks.rank, (
    SELECT min(due_at)
    FROM tickets
    WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane = '' AND queue = ranks.queue AND needs = ranks.needs
        AND rank = ranks.rank
), NULL AS lanes, NULL AS limits
FROM ranks
WHERE ranks.rank IS NOT NULL
ORDER BY rank;

-- name: solo_groups
-- The same for tickets that lost two owners.
WITH RECURSIVE
kinds (queue, needs) AS (
    SELECT wanted.value, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane = '' AND queue = wanted.value
    )
    FROM json_each(?1) AS wanted
    UNION ALL
    SELECT kinds.queue, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane = '' AND queue = kinds.queue AND needs > kinds.needs
    )
    FROM kinds
    WHERE kinds.needs IS NOT NULL
),
ranks (queue, needs, rank) AS (
    SELECT kinds.queue, kinds.needs, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane = '' AND queue = kinds.queue AND needs = kinds.needs
    )
    FROM kinds
    WHERE kinds.needs IN (SELECT value FROM json_each(?2))
    UNION ALL
    SELECT ranks.queue, ranks.needs, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane = '' AND queue = ranks.queue AND needs = ranks.needs
            AND rank > ranks.rank
    )
    FROM ranks
    WHERE ranks.rank IS NOT NULL
)
SELECT NULL AS queue, NULL AS needs, NULL AS rank, EXISTS (
    SELECT 1
    FROM json_each(?4) AS wanted
    CROSS JOIN tickets ON tickets.owner = ?3 AND tickets.lease = wanted.value
) AS due_at, EXISTS (
    SELECT 1
    FROM tickets
    WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane <> '' AND lane > ''
) AS lanes, (
    EXISTS (SELECT 1 FROM limits WHERE most IS NOT NULL AND kind <> 'key') OR EXISTS (SELECT 1 FROM holds WHERE held = 1)
) AS limits
FROM workers
WHERE id = ?3
UNION ALL
SELECT ranks.queue, ranks.needs, ranks.rank, (
    SELECT min(due_at)
    FROM tickets
    WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane = '' AND queue = ranks.queue AND needs = ranks.needs
        AND rank = ranks.rank
), NULL AS lanes, NULL AS limits
FROM ranks
WHERE ranks.rank IS NOT NULL
ORDER BY rank;

-- name: open_tickets
-- The first tickets of one group, one more than wanted: it says when the group is due next.
SELECT due_at, run_id, path, needs, head, wakes, losses, lost_lease, base, 0, rank
FROM tickets
WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane = '' AND queue = ?1 AND needs = ?2 AND rank = ?3
ORDER BY due_at, run_id, path
LIMIT ?4;

-- name: solo_tickets
SELECT due_at, run_id, path, needs, head, wakes, losses, lost_lease, base, 0, rank
FROM tickets
WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane = '' AND queue = ?1 AND needs = ?2 AND rank = ?3
ORDER BY due_at, run_id, path
LIMIT ?4;

-- name: open_lanes
-- Lanes with free tickets, the kinds of work in them, and their ranks: jumps along the index.
WITH RECURSIVE
lanes (lane) AS (
    SELECT (SELECT min(lane) FROM tickets WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '')
    UNION ALL
    SELECT (SELECT min(lane) FROM tickets WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '' AND lane > lanes.lane)
    FROM lanes
    WHERE lanes.lane IS NOT NULL
),
ranks (lane, needs, rank) AS (
    SELECT lanes.lane, wanted.value, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '' AND lane = lanes.lane AND needs = wanted.value
    )
    FROM lanes
    CROSS JOIN json_each(?1) AS wanted
    WHERE lanes.lane IS NOT NULL
    UNION ALL
    SELECT ranks.lane, ranks.needs, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '' AND lane = ranks.lane AND needs = ranks.needs
            AND rank > ranks.rank
    )
    FROM ranks
    WHERE ranks.rank IS NOT NULL
)
SELECT ranks.lane, ranks.needs, ranks.rank
FROM ranks
WHERE ranks.rank IS NOT NULL;

-- name: open_lane_tickets
-- The first tickets of one group, due or not.
SELECT
    lane, started, priority, ending,
    due_at, run_id, path, needs, head, wakes, losses, lost_lease, base, 1, rank
FROM tickets
WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '' AND lane = ?1 AND needs = ?2 AND rank = ?3
ORDER BY due_at, run_id
LIMIT ?4;

-- name: solo_lanes
-- Lanes with free tickets, the kinds of work in them, and their ranks: jumps along the index.
WITH RECURSIVE
lanes (lane) AS (
    SELECT (SELECT min(lane) FROM tickets WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane <> '')
    UNION ALL
    SELECT (SELECT min(lane) FROM tickets WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane <> '' AND lane > lanes.lane)
    FROM lanes
    WHERE lanes.lane IS NOT NULL
),
ranks (lane, needs, rank) AS (
    SELECT lanes.lane, wanted.value, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane <> '' AND lane = lanes.lane AND needs = wanted.value
    )
    FROM lanes
    CROSS JOIN json_each(?1) AS wanted
    WHERE lanes.lane IS NOT NULL
    UNION ALL
    SELECT ranks.lane, ranks.needs, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane <> '' AND lane = ranks.lane AND needs = ranks.needs
            AND rank > ranks.rank
    )
    FROM ranks
    WHERE ranks.rank IS NOT NULL
)
SELECT ranks.lane, ranks.needs, ranks.rank
FROM ranks
WHERE ranks.rank IS NOT NULL;

-- name: solo_lane_tickets
-- The first tickets of one group, due or not.
SELECT
    lane, started, priority, ending,
    due_at, run_id, path, needs, head, wakes, losses, lost_lease, base, 1, rank
FROM tickets
WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane <> '' AND lane = ?1 AND needs = ?2 AND rank = ?3
ORDER BY due_at, run_id
LIMIT ?4;

-- name: taken_before
-- The tickets that these leases took the first time, when the answer was lost.
SELECT due_at, run_id, tickets.path, needs, head, wakes, losses, lost_lease, base, lane <> '', rank, lease
FROM json_each(?2) AS wanted
CROSS JOIN tickets ON tickets.owner = ?1 AND tickets.lease = wanted.value;

-- name: take_ticket
UPDATE tickets
SET owner = ?3, lease = ?4, started = 1
WHERE run_id = ?1 AND path = ?2;

-- name: claimed_logs
-- The logs of a whole claim, each from its base on (a remote step: only the event that scheduled it).
SELECT wanted.key, seq, kind, events.path, attempt, at, payload
FROM json_each(?1) AS wanted
CROSS JOIN events
    ON events.run_id = wanted.value ->> 0
    AND events.seq BETWEEN wanted.value ->> 1 AND wanted.value ->> 2;

-- name: reroute
UPDATE tickets
SET needs = ?3
WHERE run_id = ?1 AND path = '' AND needs = ?2 AND lease IS NULL
RETURNING 1;
