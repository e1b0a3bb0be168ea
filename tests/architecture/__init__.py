"""Checks of the code itself: size, names, walls, things that must never appear."""
