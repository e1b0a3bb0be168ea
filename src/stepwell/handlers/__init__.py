"""Handlers: what the built-in nodes that reach the outside do, in a worker."""
