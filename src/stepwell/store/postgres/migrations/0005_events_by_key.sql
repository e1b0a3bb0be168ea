CREATE INDEX published_events_key ON stepwell.published_events (name, key, at, id) WHERE key <> '';
