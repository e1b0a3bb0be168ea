"""Graph cases: scripted work, virtual time, one line of JSON per case."""
