-- A worker that was asked to stop: what it still owns when it is killed was not lost to a crash.
ALTER TABLE workers ADD COLUMN leaving INTEGER NOT NULL DEFAULT 0;
