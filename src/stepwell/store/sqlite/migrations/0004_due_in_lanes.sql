-- Whether a run of a lane waits, without a look at those that sleep.

CREATE INDEX tickets_lane_due ON tickets (due_at) WHERE lease IS NULL AND losses < 2 AND lane <> '';
