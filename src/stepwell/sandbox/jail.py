"""The jail around a sandbox process: bubblewrap, where it is installed and allowed.

Inside, there is no network and no other process; the only files are the interpreter and its libraries.
Without it, the interpreter's own limits, the confinement and the kill by the parent remain.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives")
_PROBE_SECONDS = 10.0
_TEMPORARY_BYTES = 16 * 1024 * 1024


@functools.cache
def jail() -> tuple[str, ...]:
    """Return the command to put before a sandbox's own, or () if bubblewrap is missing or not allowed."""
    program = shutil.which("bwrap")
    if program is None or os.environ.get("STEPWELL_SANDBOX_JAIL") == "off":
        return ()
    command = (program, *_options())
    try:
        probe = subprocess.run(
            [*command, sys.executable, "-I", "-S", "-c", "pass"],
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return command if probe.returncode == 0 else ()


def _options() -> list[str]:
    options = ["--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    options += [
        "--size",
        str(_TEMPORARY_BYTES),
        "--tmpfs",
        "/tmp",
    ]  # first, because a program may be installed below it
    folders = [*_SYSTEM, sys.prefix, sys.base_prefix, sysconfig.get_paths()["purelib"]]
    folders.append(str(Path(__file__).parent))
    for folder in dict.fromkeys(folders):
        options += ["--ro-bind-try", folder, folder]
    return [*options, "--dev", "/dev", "--remount-ro", "/", "--chdir", "/"]


def jailed(command: Sequence[str]) -> list[str]:
    return [*jail(), *command]
