"""Where step functions run."""
