"""Tests of the tools around the project."""
