"""A private PostgreSQL to play with: prints its URL and runs until Ctrl-C."""

from __future__ import annotations

import signal

from tools.postgres.cluster import Cluster

with Cluster() as cluster:
    print(cluster.databases.create(), flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        pass
