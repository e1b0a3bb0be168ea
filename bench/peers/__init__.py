"""One file a peer: the same work as `bench.measure` names, done the way that engine's documentation advises.

Each runs in an environment of its own (`bench.run_peers` makes it) and knows nothing of Stepwell.
"""
