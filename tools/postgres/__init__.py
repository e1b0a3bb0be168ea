"""A private PostgreSQL for tests, benches and fault drills: found or installed, started, killed, removed."""
