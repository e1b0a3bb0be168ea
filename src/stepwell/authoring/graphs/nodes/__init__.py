"""The node types: their data and their behaviour."""
