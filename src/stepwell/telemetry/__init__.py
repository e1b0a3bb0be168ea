"""Telemetry: what a process counts and times, and the spans that it reports to OpenTelemetry."""
