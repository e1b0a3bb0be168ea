"""Workflows as graphs of nodes and edges."""
