"""The project's own files, as the architecture tests read them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "stepwell"
NOT_OURS = {".git", ".venv", ".bench", "__pycache__", "build", "dist", "node_modules"}
NOT_OURS_ENDINGS = ("_cache", ".egg-info")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    name: str  # path from the repository root, as failures should print it
    text: str
    tree: ast.Module

    def functions(self) -> Iterator[Function]:
        for node in ast.walk(self.tree):
            if isinstance(node, Function):
                yield node

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Every call with the dotted name it is called by, `asyncio.gather` for example."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                yield node, ast.unparse(node.func)


@cache
def module(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix()
    return Module(name=name, text=text, tree=ast.parse(text, filename=name))


def package_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def python_files() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".py"]


@cache
def project_files() -> tuple[Path, ...]:
    """What is or will be committed. Without git (an unpacked archive) all files that look like ours."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        paths = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    else:
        paths = [path for path in ROOT.rglob("*") if not _foreign(path.relative_to(ROOT))]
    return tuple(sorted(path for path in paths if path.is_file()))


def _foreign(path: Path) -> bool:
    return any(part in NOT_OURS or part.endswith(NOT_OURS_ENDINGS) for part in path.parts)


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
