-- Start rates that are set while engines run.
CREATE TABLE stepwell.start_rates (
    per text COLLATE "C" NOT NULL, -- workflow or user
    seconds double precision NOT NULL,
    most integer, -- nothing: no rate, whatever engines were given
    set_by text COLLATE "C" NOT NULL,
    PRIMARY KEY (per, seconds)
);
