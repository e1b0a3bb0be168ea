"""The types of nodes: their data, and what they do."""
