"""One claimed run: replay, waits, children, compensation, ends."""
