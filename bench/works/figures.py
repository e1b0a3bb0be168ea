"""What a measured work hands back: named numbers, under which mode, with which settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

Runs = Callable[[int], Awaitable[None]]  # does so many runs of a work, some at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    values: Mapping[str, float]
    mode: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)
