"""The one HTTP client for calls to the outside: what nodes, triggers and imports send goes through it."""
