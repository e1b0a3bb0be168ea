"""From a definition to a plan: checked and compiled once, cached by content hash."""
