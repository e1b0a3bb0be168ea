"""Install Debian packages that tests need, if this account may."""

from __future__ import annotations

import os
import shutil
import subprocess


def install(*packages: str) -> bool:
    """Install them with apt-get; False: there is no apt-get, we are not root, or it failed."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return False
    # In that runlevel a package starts no service of its own.
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    options = ["-qq", "-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold"]
    done = [
        subprocess.run([apt, *arguments], env=quiet, stdout=subprocess.DEVNULL, check=False).returncode == 0
        for arguments in (["update", "-qq"], ["install", *options, *packages])
    ]
    return all(done)
