"""Built-in nodes that reach the outside."""
