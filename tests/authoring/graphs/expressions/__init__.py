"""Tests of expressions."""
