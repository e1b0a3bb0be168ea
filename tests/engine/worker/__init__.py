"""One worker process: claims, leases, commits, limits, stops."""
