-- Transactions of the writer.

-- name: begin
-- Takes the write lock at once: a transaction that began with a read could fail to get it later.
BEGIN IMMEDIATE;

-- name: commit
COMMIT;

-- name: sync_at_once
-- A commit waits for the disk, and makes earlier unsynced commits durable with it.
PRAGMA synchronous = FULL;

-- name: sync_later
PRAGMA synchronous = NORMAL;

-- name: rollback
ROLLBACK;
