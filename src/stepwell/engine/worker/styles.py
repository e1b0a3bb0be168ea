"""The styles of workflows, by the kind of their definition."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.engine.context.styles import FunctionStyle, GraphStyle
from stepwell.engine.machine.driver import MachineStyle
from stepwell.engine.run.style import StyleRules

STYLES: Mapping[str, type[StyleRules]] = {
    "function": FunctionStyle,
    "machine": MachineStyle,
    "graph": GraphStyle,
}
