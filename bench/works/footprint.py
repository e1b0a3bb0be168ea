"""W8, what having it costs: the time of the import, packages and megabytes of a fresh environment."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from importlib.metadata import distributions
from pathlib import Path

from bench.measure import Sizes
from bench.works.figures import Figures
from bench.works.worker import ROOT
from tools.disk import disk_folder

ALONE = "pass"
PACKAGE = "import stepwell"
NAMES = "from stepwell import Context, Engine, step, workflow"  # a program that works: names load lazily
NOT_OURS = {"pip", "setuptools", "wheel", "pkg_resources", "_distutils_hack"}


async def import_and_install(place: str, sizes: Sizes) -> list[Figures]:
    """`place` is not needed: nothing is stored."""
    package, names = import_ms(PACKAGE, sizes.imports), import_ms(NAMES, sizes.imports)
    found = [
        Figures(mode="package", values={"import_ms": package}),
        Figures(mode="names", values={"import_ms": names}, settings={"code": NAMES}),
    ]
    if sizes.installs:
        with tempfile.TemporaryDirectory(prefix="stepwell-install-", dir=disk_folder()) as folder:
            found.append(Figures(mode="install", values=installed(Path(folder))))
    return found


def import_ms(code: str, times: int) -> float:
    """Fresh interpreters in turn with bare ones, so that a slow moment hits both. All but the first find
    bytecode, as they do in an installed package."""
    _seconds(code)
    extra = [_seconds(code) - _seconds(ALONE) for _ in range(times)]
    return statistics.median(extra) * 1000


def _seconds(code: str) -> float:
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=settings)
    return time.perf_counter() - began


def installed(folder: Path) -> dict[str, float]:
    """`pip install .` into an empty environment, counted without pip itself and without bytecode."""
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(ROOT)], check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    names = [found.name for found in distributions(path=[str(packages)]) if found.name not in NOT_OURS]
    return {"packages": len(names), "megabytes": sum(map(_bytes, _ours(packages))) / 1e6}


def _ours(packages: Path) -> list[Path]:
    return [entry for entry in packages.iterdir() if entry.name.split("-")[0] not in NOT_OURS]


def _bytes(entry: Path) -> int:
    files = [entry] if entry.is_file() else entry.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file() and file.suffix != ".pyc")
