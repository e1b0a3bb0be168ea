"""Tests of state machines."""
