"""Alone: with several processes of pytest (`-n 4`), marked tests have the machine to themselves.

They time, kill or freeze something: work beside them would change what they see. Each test takes a lock,
shared or for itself, and the marked ones come last so that nobody waits long. With one process, as in
`pytest tests/some/test_file.py`, there is nothing to do.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MARK = "alone"
FOLDER = "stepwell_lock_folder"


class Turns:
    """One lock over all processes. Who waits for it keeps the door shut, so nobody waits for ever."""

    def __init__(self, folder: Path) -> None:
        self._door = folder / "door"
        self._room = folder / "room"

    @contextmanager
    def taken(self, *, alone: bool) -> Iterator[None]:
        with open(self._room, "ab") as room:
            with open(self._door, "ab") as door:
                fcntl.flock(door, fcntl.LOCK_EX)
                fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            yield


class AlonePlugin:
    """Of a process that runs tests beside others."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        with self._turns.taken(alone=item.get_closest_marker(MARK) is not None):
            return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: item.get_closest_marker(MARK) is not None)


class LockFolder:
    """Of the process that starts the others: where their lock is, as long as they live."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="stepwell-turns-")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: object) -> None:
        node.workerinput[FOLDER] = self._folder  # type: ignore[attr-defined]  # of xdist, which has no types

    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def register(config: pytest.Config) -> None:
    given: dict[str, str] | None = getattr(config, "workerinput", None)
    if given is not None:
        config.pluginmanager.register(AlonePlugin(Turns(Path(given[FOLDER]))), "stepwell-alone")
    elif config.getoption("numprocesses", None):
        config.pluginmanager.register(LockFolder(), "stepwell-alone")
