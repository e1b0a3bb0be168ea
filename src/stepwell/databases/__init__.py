"""Databases: named connections to databases outside of Stepwell, for `query` nodes."""
