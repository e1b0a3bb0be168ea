"""Workflows as data: nodes and edges in JSON."""
