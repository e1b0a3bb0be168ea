"""Handlers: the functions of built-in nodes that call other systems, as workers run them."""
