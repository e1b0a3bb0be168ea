"""Workflows as state machines: places, and transitions between them."""
