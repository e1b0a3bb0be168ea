"""What a measured work hands back: named numbers, under which mode, with which settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    values: Mapping[str, float]
    mode: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)
