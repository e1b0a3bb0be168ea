"""The engine, as a demanding user sees it."""
