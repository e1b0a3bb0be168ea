"""Planted bugs in code changes: open calls do not count, or a decision is lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from stepwell.engine.context import context
from stepwell.engine.run import activation, endings, journal
from stepwell.engine.run.journal import Journal
from stepwell.engine.run.waits import Waits
from tests.simulation.simulator.changes import CHANGES
from tests.simulation.simulator.mutants import Mutant

_keep: Callable[[Waits], None] = Waits.keep
_retried: Callable[[Journal, int], None] = journal._retried


def _fits_always(*args: Any) -> None:
    return None


def _all_reached(*args: Any) -> Iterator[str]:
    return iter(())


def _keep_signals_only(self: Waits) -> None:
    self.rows = deque(row for row in self.rows if row.kind != "decide")
    _keep(self)


def _forget_openings(run_journal: Journal, seq: int) -> None:
    _retried(run_journal, seq)
    run_journal.opened.clear()


CHANGE_MUTANTS: tuple[Mutant, ...] = tuple(
    Mutant(name, what, patches=patches, shapes=CHANGES)
    for name, what, patches in (
        (
            "open_is_nothing",
            "what is open is no part of the log's order",
            ((activation, "left_open", _fits_always), (endings, "left_open", _fits_always)),
        ),
        ("patched_blindly", "patched does not see what is open", ((context, "unreached", _all_reached),)),
        (
            "decision_dropped",
            "a run that fails forgets its decisions",
            ((Waits, "keep", _keep_signals_only),),
        ),
        (
            "retry_forgets",
            "what was open counts only until a retry",
            ((journal, "_retried", _forget_openings),),
        ),
    )
)
