"""The JSON of a graph: reading it, checking its shape, comparing and drawing it."""
