"""What a new run from an old one may change, by keyword: of rerun, rerun_from and fork."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from stepwell.domain.status import Status


class RerunChanges(TypedDict, total=False):
    input: Any
    version: str
    key: str


class StepChanges(TypedDict, total=False):
    outputs: Mapping[str, Any] | None
    key: str


class ForkEdits(StepChanges, total=False):
    input: Any
    state: Any


class RunsWanted(TypedDict, total=False):
    """Which runs are listed."""

    workflow: str
    status: Status | str | Sequence[Status | str]
    before: str
    limit: int
