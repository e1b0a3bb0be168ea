"""Planted bugs in machines and compensation; hunted with shapes of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.domain import events as ev
from stepwell.domain.documents import Documents, document_id
from stepwell.domain.events import Event
from stepwell.engine.machine import driver
from stepwell.engine.machine.attempt import TransitionAttempt
from stepwell.engine.machine.driver import MachineDriver
from stepwell.engine.machine.task_tracker import TaskTracker
from stepwell.engine.run import activation
from stepwell.engine.run.compensation import Compensation
from stepwell.engine.run.journal import Journal
from stepwell.engine.run.machine_state import begin_anew
from tests.simulation.simulator.mutants import Mutant
from tests.simulation.simulator.shapes import MACHINES

_take: Callable[..., None] = Documents.take


def _show_at_once(self: Documents, event: Event) -> None:
    _take(self, event)
    if isinstance(event.fact, ev.DocumentSaved):
        self._show(event.path)


def _everything_saved(journal: Journal, visit: str, *, failed: bool) -> list[str]:
    """Also what attempts saved that failed."""
    versions = dict(item.rsplit("@", 1) for item in journal.document_ids)
    for saved in journal.saved.values():
        for name in {document.name for _, document in saved}:
            versions[name] = str(int(versions.get(name, "0")) + 1)
    return [document_id(name, int(version)) for name, version in versions.items()]


def _forget_all(self: MachineDriver) -> None:
    begin_anew(self._journal)
    self._known.clear()
    self._offer()


def _never(*args: Any) -> bool:
    return False


def _one_task_waits(self: TaskTracker) -> bool:
    """One task in a ctx verb is enough, although others run."""
    return any(tracked.calls for tracked in self._tracked.values())


def _resume_blindly(self: Compensation, begin: Callable[[], None]) -> None:
    begin()


MACHINE_MUTANTS: tuple[Mutant, ...] = tuple(
    Mutant(name, what, patches=patches, shapes=MACHINES)
    for name, what, patches in (
        ("early_documents", "documents before their transition", ((Documents, "take", _show_at_once),)),
        (
            "failed_documents",
            "documents of attempts that failed",
            ((driver, "visible_after", _everything_saved),),
        ),
        (
            "steps_again",
            "a new attempt repeats what was completed",
            ((MachineDriver, "_begin_anew", _forget_all),),
        ),
        ("deaf_body", "an answer comes before the body asks again", ((MachineDriver, "keeps", _never),)),
        (
            "parks_too_early",
            "parks although code goes on",
            ((TaskTracker, "rests", property(_one_task_waits)),),
        ),
        (
            "waits_count",
            "durable waits count for a timeout",
            ((TransitionAttempt, "rest", lambda self, quiet: None),),
        ),
        ("undoes_the_rest", "only the last visit is undone", ((activation, "has_earlier", _never),)),
        ("undoes_blindly", "the next owner does not look back", ((Compensation, "resume", _resume_blindly),)),
    )
)
