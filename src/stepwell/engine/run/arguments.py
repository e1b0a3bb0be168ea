"""Arguments: are those that the code gives a step now the ones that its result was recorded for?

Steps of one task are told apart by their names and their order. Code that goes over a set may go in another
order after a restart, and each item would get the result of another. So the log keeps a digest of the
arguments. In branches that run beside each other any difference is a change of the code. In the main task
other arguments alone are none: code may be changed there, and what is done is not done again. But when
arguments come back at another place than where they were recorded, the results were mixed up.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import msgspec

from stepwell.domain import events as ev
from stepwell.domain.codec import digest
from stepwell.engine.run.answers import RecordedResult
from stepwell.engine.run.calls import Call, StepCall
from stepwell.errors import DIFFERS, CodeChanged

_log = logging.getLogger("stepwell.engine")

_STRICT = 16  # characters of a digest; a short one has fewer


def _fields(value: Any) -> Any:
    """Of a pydantic model, without what it works out itself; of nothing else."""
    if not hasattr(type(value), "model_dump"):
        raise TypeError
    return value.model_dump(round_trip=True)


_encode = msgspec.json.Encoder(order="deterministic", enc_hook=_fields).encode


def strict_digest(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Guards against answers for the wrong branch; arguments that cannot be written have none."""
    try:
        return digest(_encode([args, kwargs]))
    except (TypeError, ValueError, RecursionError):
        return ""


def short_digest(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The same for every step of a main task, in a third of the time."""
    try:
        return str(crc32(_encode([args, kwargs] if kwargs else args)))
    except (TypeError, ValueError, RecursionError):
        return ""


def same_arguments(call: StepCall, recorded: str) -> bool:
    """As far as the digests can tell. Which of the two the log has depends on the version that wrote it."""
    if not recorded or not call.digest or recorded == call.digest:
        return True
    if len(recorded) == len(call.digest) == _STRICT:
        return False
    made = strict_digest if len(recorded) == _STRICT else short_digest
    return made(call.args, call.kwargs) in ("", recorded)


class ReplayedArguments:
    """Of the steps that one activation replays."""

    def __init__(self) -> None:
        # By step: digests that the log has at places where the code gives other arguments now.
        self.displaced: defaultdict[str, set[str]] = defaultdict(set)

    def compare(self, call: Call, fact: ev.Fact, ahead: Iterable[RecordedResult]) -> None:
        """CodeChanged when the step would get the result of another."""
        if not isinstance(call, StepCall) or not isinstance(fact, ev.StepCompleted | ev.StepFailed):
            return
        if same_arguments(call, fact.digest):
            return
        if len(fact.digest) == _STRICT:
            raise CodeChanged(
                f"{call.path} was recorded with other arguments than the code gives now",
                hint="create concurrent branches in the same order, or guard the change with ctx.patched; "
                f"{DIFFERS}",
            )
        if (moved := self.moved(call)) is not None:
            raise moved
        before = _numberless(call.path)
        for answer in ahead:
            if _numberless(answer.path) == before and getattr(answer.fact, "digest", "") == call.digest:
                raise _permuted(call)
        if not self.displaced:
            _log.warning(
                "%s was recorded with other arguments than the code gives now; the recorded result is used",
                call.path,
            )
        self.displaced[before].add(fact.digest)

    def moved(self, call: StepCall) -> CodeChanged | None:
        """The error, if these arguments were recorded at an earlier place."""
        known = self.displaced.get(_numberless(call.path), ())
        return _permuted(call) if call.digest in known else None


def _numberless(path: str) -> str:
    return path.rpartition("#")[0]


def _permuted(call: StepCall) -> CodeChanged:
    return CodeChanged(
        f"{call.path} has the arguments that the log has at another call of {call.spec.name}: "
        "the order of the calls has changed",
        hint="a set has another order after a restart: go over sorted(...) or a list; "
        f"guard a change of the code with ctx.patched; {DIFFERS}",
    )
