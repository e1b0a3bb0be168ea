"""Build hook: a wheel carries Studio.

`STEPWELL_STUDIO` is auto (the default: warn if it cannot be built), build (fail then) or skip (leave it out).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
from tools import studio

_MODES = ("auto", "build", "skip")
_PAGES = "src/stepwell/server/studio_files"


class StudioHook(BuildHookInterface):  # type: ignore[type-arg]
    def dependencies(self) -> list[str]:
        """Ask for Node from the package index where the machine has none."""
        return [studio.NODE_PACKAGE] if self._wanted() and studio.node_missing() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not self._wanted():
            return
        try:
            studio.build()
        except Exception as error:
            if self._mode() == "build":
                raise
            self.app.display_warning(
                f"Studio is not in this wheel, only the API and the command line: {error}"
            )
            return
        build_data["artifacts"].append(_PAGES)  # git ignores what is built, and hatchling what git ignores

    def _wanted(self) -> bool:
        return self._mode() != "skip" and studio.STUDIO.is_dir()

    def _mode(self) -> str:
        mode = os.environ.get("STEPWELL_STUDIO", "auto")
        if mode not in _MODES:
            raise ValueError(f"STEPWELL_STUDIO is {mode!r}; use one of {', '.join(_MODES)}")
        return mode
