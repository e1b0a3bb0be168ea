-- What was released is kept too: since when, by whom and why.
ALTER TABLE holds ADD COLUMN held INTEGER NOT NULL DEFAULT 1;
