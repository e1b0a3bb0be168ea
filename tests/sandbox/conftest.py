"""Fixtures of the tests of sandboxes."""

from tests.sandbox.jailing import bubblewrap, jail, jailing

__all__ = ["bubblewrap", "jail", "jailing"]
