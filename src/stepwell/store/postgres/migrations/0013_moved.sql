-- Whether the content of another database comes, or came, to this one.
CREATE TABLE stepwell.moved (
    one boolean PRIMARY KEY DEFAULT true CHECK (one), -- a single row
    token text COLLATE "C" NOT NULL, -- the same on both sides
    state text COLLATE "C" NOT NULL, -- receiving or received
    place text COLLATE "C" NOT NULL, -- where it comes from
    at double precision NOT NULL
);
