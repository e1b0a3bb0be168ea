"""Tests marked `alone` have the machine to themselves, whichever process of pytest they run in."""

from __future__ import annotations

import fcntl
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.alone import Turns

PATIENCE = 30.0


class Guest:
    """Somebody in the room until he is told to leave. Locks belong to open files: a thread will do."""

    def __init__(self, pool: ThreadPoolExecutor, turns: Turns, *, alone: bool) -> None:
        self.inside, self._leave = threading.Event(), threading.Event()
        self._stay = pool.submit(self._stays, turns, alone)

    def _stays(self, turns: Turns, alone: bool) -> None:
        with turns.taken(alone=alone):
            self.inside.set()
            assert self._leave.wait(PATIENCE)

    def leave(self) -> None:
        self._leave.set()
        self._stay.result(PATIENCE)


def shut(door: Path) -> bool:
    with open(door, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_one_who_wants_to_be_alone_waits_for_the_others_and_holds_up_the_next(tmp_path: Path) -> None:
    turns = Turns(tmp_path)
    with ThreadPoolExecutor() as pool:
        first, second = Guest(pool, turns, alone=False), Guest(pool, turns, alone=False)
        assert first.inside.wait(PATIENCE)
        assert second.inside.wait(PATIENCE)

        alone = Guest(pool, turns, alone=True)
        while not shut(tmp_path / "door"):
            pass
        late = Guest(pool, turns, alone=False)
        first.leave()
        assert not alone.inside.is_set()
        second.leave()
        assert alone.inside.wait(PATIENCE)
        assert not late.inside.is_set()
        alone.leave()

        assert late.inside.wait(PATIENCE)
        late.leave()
