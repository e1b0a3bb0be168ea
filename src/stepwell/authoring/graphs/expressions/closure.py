"""Closure: what an expression is compiled into, part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from stepwell.authoring.graphs.expressions.frame import Frame

Closure: TypeAlias = Callable[[Frame], Any]
