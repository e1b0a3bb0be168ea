"""Where step functions run: the loop, threads, processes."""
