-- What tells that the payloads of this file are encoded, and with which key. Empty: they are, by the look of
-- the newest run, and whoever opens the file with the right codec next writes the check.
CREATE TABLE codec_check (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    value BLOB NOT NULL
) STRICT;

INSERT INTO codec_check (id, value)
SELECT 1, x''
FROM (SELECT input FROM runs ORDER BY id DESC LIMIT 1)
WHERE instr('{["-0123456789tfn', CAST(substr(input, 1, 1) AS TEXT)) = 0;
