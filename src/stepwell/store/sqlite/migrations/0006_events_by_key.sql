CREATE INDEX published_events_key ON published_events (name, key, at, id) WHERE key <> '';
