"""Fact: what all facts of a run have in common, and how an error is written down in one."""

from __future__ import annotations

import msgspec
from msgspec import Raw

NULL = Raw(b"null")


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as it is recorded: readable without the code that raised it."""

    code: str
    message: str
    type: str = ""
    hint: str = ""
    path: str = ""
    traceback: str = ""
    permanent: bool = False  # its author says that trying again cannot help


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened."""
