"""`make bench-peers`: other engines beside Stepwell and the floor, in one run.

    python -m bench.run_peers --peers dbos absurd --works W1 --repeat 3 --quick

Each peer is installed into an environment of its own under `.bench/`, once.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bench.contest import ROOT, Contestant, hold_and_print, home_side, say
from bench.measure import STORES, Store

ENVIRONMENTS = ROOT / ".bench"
WORKS = ("W1", "W2", "W3", "W7")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    packages: tuple[str, ...]
    stores: tuple[Store, ...] = STORES
    works: tuple[str, ...] = WORKS


PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        "dbos": Peer(packages=("dbos~=3.3",)),
        # The schema it runs on comes inside its command line tool.
        "absurd": Peer(packages=("absurd-sdk~=0.5.1", "absurdctl~=0.5.1"), stores=("postgres",)),
        # Its wheel is built without its SQLite backend.
        "pgqrs": Peer(packages=("pgqrs~=0.15.3",), stores=("postgres",)),
        "langgraph": Peer(
            packages=(
                "langgraph~=1.2",
                "langgraph-checkpoint-sqlite~=3.1",
                "langgraph-checkpoint-postgres~=3.2",
                "psycopg[binary,pool]~=3.2",
            ),
            works=("W1", "W2", "W7"),
        ),
    }
)


def install(name: str, peer: Peer) -> Path:
    """The Python of the peer's environment with its packages; made anew when they or the Python change."""
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    stamp = folder / "installed.stamp"
    wanted = "\n".join([*peer.packages, sys.base_prefix, sys.version])
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    say(f"installing {name}")
    venv.create(folder, clear=True, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *peer.packages], check=True)
    stamp.write_text(wanted, encoding="utf-8")
    return python


def contestant(name: str) -> Contestant:
    peer = PEERS[name]
    return Contestant(
        name=name,
        module=f"bench.peers.{name}",
        works=frozenset(peer.works),
        stores=peer.stores,
        python=str(install(name, peer)),
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.run_peers", description=__doc__)
    parser.add_argument("--peers", nargs="+", choices=sorted(PEERS), default=sorted(PEERS))
    parser.add_argument("--works", nargs="+", choices=WORKS, default=WORKS)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    contestants = [*home_side(), *(contestant(name) for name in asked.peers)]
    return hold_and_print("peers", contestants, asked.works, repeat=asked.repeat, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
