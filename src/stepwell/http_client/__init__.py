"""The client over HTTP: the verbs of the client, for a server instead of a database."""
