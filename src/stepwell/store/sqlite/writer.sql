-- Transactions of the writer.

-- name: begin
-- Takes the write lock at once: a transaction that began by reading could not get it later.
BEGIN IMMEDIATE;

-- name: commit
COMMIT;

-- name: sync_at_once
-- A commit waits for the disk, with all that was committed before it.
PRAGMA synchronous = FULL;

-- name: sync_later
PRAGMA synchronous = NORMAL;

-- name: rollback
ROLLBACK;
