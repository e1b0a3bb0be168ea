"""Workflows as state machines, as their authors see them."""
