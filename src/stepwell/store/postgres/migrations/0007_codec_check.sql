-- What tells that the payloads of this database are encoded, and with which key. Empty: they are, by the look
-- of the newest run, and whoever opens the database with the right codec next writes the check.
CREATE TABLE stepwell.codec_check (
    one boolean PRIMARY KEY DEFAULT true CHECK (one), -- a single row
    value bytea NOT NULL
);

INSERT INTO stepwell.codec_check (value)
SELECT ''
FROM (SELECT r.input FROM stepwell.runs AS r ORDER BY r.id DESC LIMIT 1) AS newest
WHERE position(substring(newest.input FROM 1 FOR 1) IN '{["-0123456789tfn'::bytea) = 0;
