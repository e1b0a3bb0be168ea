"""Named databases that `query` nodes ask."""
