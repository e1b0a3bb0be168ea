"""Workflows as Python functions."""
