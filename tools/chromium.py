"""Chromium for the browser tests: the one of this machine, or Debian's package."""

from __future__ import annotations

import os
import shutil

from tools.debian import install

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """Return the program; installs it when the machine has none and this account may."""
    if named := os.environ.get("CHROMIUM"):
        return named
    return _present() or (_present() if install("chromium", "fonts-dejavu-core") else None)


def _present() -> str | None:
    return next((program for name in NAMES if (program := shutil.which(name))), None)
