"""From a definition to a plan: checked once, compiled once, kept by content hash."""
