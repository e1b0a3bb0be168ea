"""The HTTP client for all calls to other systems: those of nodes, channels, providers and imports."""
