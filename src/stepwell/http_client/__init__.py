"""The client over HTTP: the verbs of the client for the address of a server."""
