"""Where temporary files that must really reach a disk go."""

from __future__ import annotations

import os
import tempfile

DISK = os.path.join(os.sep, "var", "tmp")  # kept over restarts, so not in memory as the usual one may be


def disk_folder() -> str:
    """TMPDIR if somebody set it; in memory `fsync` costs nothing and a measurement says nothing."""
    if "TMPDIR" not in os.environ and os.path.isdir(DISK) and os.access(DISK, os.W_OK | os.X_OK):
        return DISK
    return tempfile.gettempdir()
