-- Temporary objects of the writer's connection, created each time it is opened.
-- `UPDATE temp.beats SET now = ?` is a worker's heartbeat. It writes two tables; thanks to the trigger it is
-- one statement that needs no BEGIN and COMMIT, so an idle process sends very few statements.
CREATE TEMP VIEW beats AS
SELECT id, lease_seconds, boot, 0.0 AS now
FROM main.workers;

-- Extends the workers' contact, or restarts it after a gap, a reboot or a clock that was set back; a step
-- back of less than a second is only two callers that overtook each other.
CREATE TEMP TRIGGER beat INSTEAD OF UPDATE OF now ON beats
BEGIN
    INSERT INTO contact (id, since, last, boot)
    VALUES (1, NEW.now, NEW.now, NEW.boot)
    ON CONFLICT (id) DO UPDATE
    SET since = CASE
            WHEN contact.boot = excluded.boot
                AND excluded.last - contact.last BETWEEN -1.0 AND NEW.lease_seconds / 2
            THEN contact.since
            ELSE excluded.since
        END,
        last = excluded.last,
        boot = excluded.boot;
    UPDATE workers
    SET lease_until = NEW.now + lease_seconds, boot = NEW.boot
    WHERE id = OLD.id;
END;
