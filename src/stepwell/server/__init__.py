"""The HTTP server: the verbs of the client as routes, live events, and who may call them.

Nothing imports this package except the command line and the lazy name `stepwell.asgi`.
"""
