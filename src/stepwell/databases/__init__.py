"""Databases of others: named connections that `query` nodes read and write."""
