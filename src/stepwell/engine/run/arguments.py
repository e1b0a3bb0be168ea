"""Arguments: digests of what a step was called with, so that a replay notices when its code has changed."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Protocol
from zlib import crc32

import msgspec

from stepwell.domain import events as ev
from stepwell.domain.codec import digest
from stepwell.domain.steps import StepSpec
from stepwell.engine.run.answers import RecordedResult
from stepwell.errors import DIFFERS, CodeChanged

_log = logging.getLogger("stepwell.engine")

_STRICT = 16  # characters of a digest; a short one has fewer


class CalledStep(Protocol):
    path: str
    spec: StepSpec
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    digest: str


def _fields(value: Any) -> Any:
    """The fields of a pydantic model, without those that it computes; TypeError for anything else."""
    if not hasattr(type(value), "model_dump"):
        raise TypeError
    return value.model_dump(round_trip=True)


_encode = msgspec.json.Encoder(order="deterministic", enc_hook=_fields).encode


def strict_digest(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Guards against answers for the wrong branch; arguments that cannot be encoded have none."""
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


def same_arguments(call: CalledStep, recorded: str) -> bool:
    """As far as the digests can say. Which of the two the log has depends on the version that wrote it."""
    if not recorded or not call.digest or recorded == call.digest:
        return True
    if len(recorded) == len(call.digest) == _STRICT:
        return False
    digest_of = strict_digest if len(recorded) == _STRICT else short_digest
    return digest_of(call.args, call.kwargs) in ("", recorded)


class ReplayedArguments:
    """The arguments of the steps that one activation replays."""

    def __init__(self) -> None:
        # By step: digests that the log has at places where the code gives other arguments now.
        self.displaced: defaultdict[str, set[str]] = defaultdict(set)

    def compare(
        self, call: CalledStep, fact: ev.StepCompleted | ev.StepFailed, ahead: Iterable[RecordedResult]
    ) -> None:
        """CodeChanged when the step would get the result of another."""
        if same_arguments(call, fact.digest):
            return
        if len(fact.digest) == _STRICT:
            raise CodeChanged(
                f"{call.path} was recorded with other arguments than the code gives now",
                hint="create concurrent branches in the same order, or guard the change with ctx.patched; "
                f"{DIFFERS}",
            )
        self.check_moved(call)
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

    def check_moved(self, call: CalledStep) -> None:
        """CodeChanged when these arguments were recorded at an earlier place."""
        if call.digest in self.displaced.get(_numberless(call.path), ()):
            raise _permuted(call)


def _numberless(path: str) -> str:
    return path.rpartition("#")[0]


def _permuted(call: CalledStep) -> CodeChanged:
    return CodeChanged(
        f"{call.path} has the arguments that the log has at another call of {call.spec.name}: "
        "the order of the calls has changed",
        hint="a set has another order after a restart: go over sorted(...) or a list; "
        f"guard a change of the code with ctx.patched; {DIFFERS}",
    )
