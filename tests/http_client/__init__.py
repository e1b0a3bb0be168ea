"""The client over HTTP, against real servers."""
