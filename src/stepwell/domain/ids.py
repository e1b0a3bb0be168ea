"""Ids: names of runs, workers and leases, and how derived ones are computed."""

from __future__ import annotations

import hashlib
from typing import NewType, Protocol

RunId = NewType("RunId", str)  # UUIDv7 in hex: sorts by time of birth, says nothing secret
WorkerId = NewType("WorkerId", str)
LeaseId = NewType("LeaseId", str)  # random; equality is the fence


class Ids(Protocol):
    """The source of new ids; passed in, so that a simulation can repeat them."""

    def run_id(self) -> RunId: ...
    def worker_id(self) -> WorkerId: ...
    def lease_id(self) -> LeaseId: ...
    def token(self) -> str:
        """128 random bits in hex: message keys, seeds."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1)."""
        ...


_GENERATED = "once-"


def generated_id(token: str) -> str:
    """Return the id of a message that a client library repeats by itself. No caller knows it."""
    return _GENERATED + token


def is_generated(id: str) -> bool:
    return id.startswith(_GENERATED)


def child_run_id(parent: RunId, path: str) -> RunId:
    """The child's id: the same parent and path always give the same id, so starting it twice is harmless.

    It keeps the parent's time prefix: children are next to their parent in the index.
    """
    digest = hashlib.blake2b(f"{parent}/{path}".encode(), digest_size=10).hexdigest()
    return RunId(f"{parent[:12]}{digest}")


def recorded_random(seed: str, path: str) -> int:
    """128 bits that depend only on the run's recorded seed and the path in its code."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{path}".encode(), digest_size=16).digest(), "big")


def needs_workflow(name: str, version: str) -> str:
    """What a worker must have to take a run of this workflow."""
    return f"{name}@{version}"


def needs_step(name: str) -> str:
    return f"step:{name}"


DRAFT = "draft:"  # drafts of saved graphs have a name prefix, so that no run starts one by mistake
NEEDS_EMIT = "emit"  # a fan-out ticket of a broadcast event; every worker can do it
NEEDS_GRAPH = "graph/1"  # a run that carries its graph; every worker tries to run it
NEEDS_UNSERVED = "unserved"  # a run whose workflow no worker has; every worker can end it


def needs_this_graph(name: str, version: str) -> str:
    """For a run that carries its graph, after a worker noticed that it cannot run that graph."""
    return f"{NEEDS_GRAPH}:{needs_workflow(name, version)}"
