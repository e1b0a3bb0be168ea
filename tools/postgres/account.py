"""Who runs PostgreSQL. It refuses to run as root, so root lends it another account."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The account for the server's processes; None means the caller's own."""

    uid: int | None = None
    gid: int | None = None

    def own(self, path: str | os.PathLike[str]) -> None:
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    @property
    def groups(self) -> list[int] | None:
        return None if self.gid is None else [self.gid]


def choose() -> Account:
    if os.geteuid() != 0:
        return Account()
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(uid=entry.pw_uid, gid=entry.pw_gid)
    raise RuntimeError(f"PostgreSQL does not run as root, and none of the accounts {CANDIDATES} exists")
