"""Triggers: what starts runs by itself."""
