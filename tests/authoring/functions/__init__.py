"""Workflows as functions, as their authors see them."""
