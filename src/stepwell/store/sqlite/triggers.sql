-- Triggers: what starts runs by itself.

-- name: create_trigger
INSERT INTO triggers (
    id, type, name, workflow, version, workspace, settings, start, matches, paused, slot, next_at, origin,
    revision, created_at, created_by, updated_at, updated_by, state, last_run
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
RETURNING 1;

-- name: replace_trigger
UPDATE triggers
SET workflow = ?5, version = ?6, settings = ?7, start = ?8, matches = ?9, paused = ?10, slot = ?11, next_at = ?12,
    origin = ?13, revision = ?14, updated_at = ?15, updated_by = ?16
WHERE workspace = ?1 AND type = ?2 AND name = ?3 AND revision = ?4
RETURNING 1;

-- name: read_trigger
SELECT
    id, type, name, workflow, version, workspace, settings, start, matches, paused, slot, next_at, origin,
    revision, created_at, created_by, updated_at, updated_by, state, last_run
FROM triggers
WHERE workspace = ?1 AND type = ?2 AND name = ?3;

-- name: list_triggers
SELECT
    id, type, name, workflow, version, workspace, settings, start, matches, paused, slot, next_at, origin,
    revision, created_at, created_by, updated_at, updated_by, state, last_run
FROM triggers
WHERE workspace = ?1 AND type = ?2 AND name > ?3 AND (?4 = '' OR origin = ?4)
ORDER BY name
LIMIT ?5;

-- name: list_triggers_of_workflow
SELECT
    id, type, name, workflow, version, workspace, settings, start, matches, paused, slot, next_at, origin,
    revision, created_at, created_by, updated_at, updated_by, state, last_run
FROM triggers
WHERE workspace = ?1 AND type = ?2 AND name > ?3 AND (?4 = '' OR origin = ?4) AND workflow = ?6
    AND (?7 = '' OR matches = ?7)
ORDER BY name
LIMIT ?5;

-- name: list_triggers_matched
SELECT
    id, type, name, workflow, version, workspace, settings, start, matches, paused, slot, next_at, origin,
    revision, created_at, created_by, updated_at, updated_by, state, last_run
FROM triggers
WHERE workspace = ?1 AND type = ?2 AND name > ?3 AND (?4 = '' OR origin = ?4) AND matches = ?6 AND matches <> ''
ORDER BY name
LIMIT ?5;

-- name: list_declared_triggers
SELECT
    id, type, name, workflow, version, workspace, settings, start, matches, paused, slot, next_at, origin,
    revision, created_at, created_by, updated_at, updated_by, state, last_run
FROM triggers
WHERE workspace = ?1 AND origin = ?2 AND origin <> ''
ORDER BY type, name
LIMIT ?3;

-- name: drop_trigger
DELETE FROM triggers
WHERE workspace = ?1 AND type = ?2 AND name = ?3
RETURNING 1;

-- name: next_trigger
SELECT min(next_at)
FROM triggers
WHERE type = ?1 AND next_at IS NOT NULL AND (?2 = '' OR matches = ?2);

-- name: due_triggers
SELECT
    id, type, name, workflow, version, workspace, settings, start, matches, paused, slot, next_at, origin,
    revision, created_at, created_by, updated_at, updated_by, state, last_run,
    EXISTS (SELECT 1 FROM tickets WHERE tickets.run_id = triggers.last_run AND tickets.path = '') AS live
FROM triggers
WHERE type = ?3 AND next_at <= ?1 AND (?4 = '' OR matches = ?4)
ORDER BY next_at, id
LIMIT ?2;

-- name: fire_trigger
UPDATE triggers
SET slot = ?2, next_at = ?3, state = ?4, last_run = ?5
WHERE id = ?1;

-- name: advance_trigger
UPDATE triggers
SET slot = ?2, next_at = ?3, state = ?4, last_run = ?5
WHERE id = ?1 AND state = ?6 AND paused IS NULL
RETURNING 1;
