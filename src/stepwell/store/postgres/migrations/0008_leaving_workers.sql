-- A worker that was asked to stop: what it still owns when it is killed was not lost to a crash.
ALTER TABLE stepwell.workers ADD COLUMN leaving boolean NOT NULL DEFAULT false;
