"""What is locked: every package that is needed, in the range of pyproject.toml, with hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools.studio import NODE_PACKAGE

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "requirements"
LOCKS = ("dev", "image", "server")
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_EXTRAS: dict[str, list[str]] = _PROJECT["optional-dependencies"]
NEEDED = {
    "dev": [*_PROJECT["dependencies"], *_EXTRAS["dev"], *(FOLDER / "build.in").read_text().splitlines()],
    "image": [
        *(FOLDER / "build.in").read_text().splitlines(),
        *(FOLDER / "image.in").read_text().splitlines(),
    ],
    "server": [
        *_PROJECT["dependencies"],
        *(each for extra in ("postgres", "encryption", "yaml") for each in _EXTRAS[extra]),
    ],
}

pytestmark = pytest.mark.req("X10")


def locked(name: str) -> list[str]:
    """Return what a lock names, each with its hashes on one line."""
    return (FOLDER / f"{name}.lock").read_text().replace("\\\n", " ").splitlines()


def pins(name: str) -> dict[str, set[Version]]:
    """Return the versions by package; a package has several if they depend on the Python."""
    found: dict[str, set[Version]] = {}
    for line in locked(name):
        package, version = line.split(";")[0].split("--hash")[0].strip().split("==")
        found.setdefault(canonicalize_name(package), set()).add(Version(version))
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_hashes_and_names_no_registry(name: str) -> None:
    for line in locked(name):
        assert re.fullmatch(r"[\w.-]+==[\w.+!-]+( ; [^-]*?)?\s+(--hash=sha256:[0-9a-f]{64}\s*)+", line), line


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_and_the_ranges_agree(name: str) -> None:
    found = pins(name)
    needed = [Requirement(each) for each in NEEDED[name] if not each.startswith("#")]

    assert needed
    for requirement in needed:
        versions = found.get(canonicalize_name(requirement.name))
        assert versions, f"{requirement.name} is not locked: make lock"
        assert all(map(requirement.specifier.contains, versions)), f"{requirement}: {versions}: make lock"


def test_an_image_runs_what_the_tests_have_run_with() -> None:
    tested = pins("dev")

    assert {name: versions for name, versions in pins("server").items() if not versions <= tested[name]} == {}


def test_the_locked_node_is_the_one_that_studio_asks_for() -> None:
    assert NODE_PACKAGE in (FOLDER / "image.in").read_text().splitlines()
