"""Tests: the name of each is the rule it holds."""
