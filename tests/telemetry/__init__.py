"""Tests of stepwell.telemetry."""
