"""One process' share of the work: claiming, leases, committing, reaping, stopping."""
