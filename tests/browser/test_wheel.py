"""The wheel: it carries Studio, and needs nothing but its dependencies to run the demo."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.demo_process import running_demo
from tests.effort import EFFORT, Effort

ROOT = Path(__file__).parents[2]
PAGES = "stepwell/server/studio_files/"
TITLE_SECONDS = 20.0


@pytest.fixture(scope="module")
def wheels(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and everything it depends on. The browser comes first: it has Studio built."""
    folder = tmp_path_factory.mktemp("wheels")
    _pip(sys.executable, "wheel", str(ROOT), "--wheel-dir", str(folder), env={"STEPWELL_STUDIO": "build"})
    return folder


def _pip(python: str, *arguments: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _wheel(folder: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(folder.glob("stepwell-*.whl")))


@pytest.mark.slow
@pytest.mark.req("D2")
def test_the_wheel_has_the_page_and_every_file_that_is_named_in_it(wheels: Path) -> None:
    with _wheel(wheels) as wheel:
        names = set(wheel.namelist())
        index = wheel.read(f"{PAGES}index.html").decode()
        scripts = [name for name in names if name.startswith(f"{PAGES}assets/") and name.endswith(".js")]
        # Chunks name each other: "./RunPage-1a2b.js", "assets/graph-3c4d.js", and the worker of the layout.
        named = {
            file
            for name in scripts
            for file in re.findall(r"[\w.-]+-[\w-]{8}\.(?:js|css|svg)", wheel.read(name).decode())
        }
    assets = {name.removeprefix(f"{PAGES}assets/") for name in names if name.startswith(f"{PAGES}assets/")}

    linked = re.findall(r'(?:src|href)="\./assets/([^"]+)"', index)
    assert any(name.endswith(".js") for name in linked)
    assert any(name.endswith(".css") for name in linked)
    assert [name for name in linked if name not in assets] == []
    assert len(named) > 10
    assert sorted(named - assets) == []
    assert "stepwell/server/errors.md" in names
    assert not [name for name in names if name.startswith(("tests/", "tools/", "studio/"))]


@pytest.fixture(scope="module")
def python(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of an environment that has the wheel, and nothing but its dependencies."""
    home = tmp_path_factory.mktemp("empty")
    venv.create(home, with_pip=True)
    python = str(home / "bin" / "python")
    _pip(python, "install", "--no-index", "--find-links", str(wheels), "stepwell")
    where = _printed(python, "import stepwell; print(stepwell.__file__)", home)
    assert str(home) in where, "not the sources of this tree"
    return python


def _printed(python: str, program: str, folder: Path) -> str:
    done = subprocess.run(
        [python, "-c", program], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# What needs an extra, and how it is asked for.
WITHOUT_EXTRAS = """
import asyncio
from stepwell import Engine, graph
from stepwell.errors import StepwellError
from stepwell.secrets.keyring import Keyring

def body(kind, data):
    nodes = [{"id": "s", "type": "start"}, {"id": "n", "type": kind, "data": data}]
    nodes += [{"id": "e", "type": "end"}]
    return {"nodes": nodes, "edges": [{"source": "s", "target": "n"}, {"source": "n", "target": "e"}]}

async def ran(kind, data):
    provider = {"kind": "openai", "base_url": "https://models.example/v1", "model": "m"}
    async with Engine(":memory:", providers={"main": provider}) as engine:
        await (await engine.start_graph(body(kind, data), {})).result(30)

async def opened(address):
    async with Engine(address):
        pass

ATTEMPTS = {
    "javascript": lambda: asyncio.run(ran("javascript", {"code": "return 1"})),
    "python": lambda: asyncio.run(ran("python", {"code": "return 1"})),
    "ai": lambda: asyncio.run(ran("ai", {"prompt": "hello"})),
    "postgres": lambda: asyncio.run(opened("postgresql://127.0.0.1/nothing")),
    "encryption": lambda: Keyring({"k": b"k" * 32}, current="k"),
    "yaml": lambda: graph("flow.yaml"),
}
open("flow.yaml", "w").write("nodes: []")
for name, attempt in ATTEMPTS.items():
    try:
        attempt()
        print(name, "worked")
    except StepwellError as error:
        print(name, error.code, str(error).replace("\\n", " "))
"""


@pytest.mark.slow
@pytest.mark.req("D2", "N6", "N7", "BI-C24")
def test_what_needs_an_extra_says_what_to_install(python: str, tmp_path: Path) -> None:
    extras = {"javascript": "code", "python": "code", "ai": "ai"}
    lines = dict(line.split(" ", 1) for line in _printed(python, WITHOUT_EXTRAS, tmp_path).splitlines())

    assert lines.keys() == extras.keys() | {"postgres", "encryption", "yaml"}
    for name, said in lines.items():
        assert f"stepwell[{extras.get(name, name)}]" in said, f"{name} {said}"


@pytest.mark.slow
@pytest.mark.req("D2", "D5")
def test_the_wheel_in_an_empty_environment_runs_the_demo(
    python: str, browser: Browser, tmp_path: Path
) -> None:
    with running_demo(tmp_path / "demo", python=python) as demo:
        page = browser.new_page()
        page.goto(f"{demo.url}/?t={demo.token}")
        expect(page.get_by_role("button", name="Kill the worker")).to_be_enabled(timeout=60_000)
        expect(page.get_by_role("group", name=re.compile("^load_order"))).to_be_visible(timeout=30_000)
        page.close()
        assert demo.stop() == 0


@pytest.mark.slow
@pytest.mark.req("D1")
@pytest.mark.skipif(EFFORT is not Effort.ALL, reason="sets up a whole clone: before a release")
def test_a_fresh_clone_shows_the_demo(browser: Browser, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    for name in ("test", "demo"):  # what the two commands of the README need
        needed = subprocess.run(
            ["make", "--dry-run", name], cwd=clone, capture_output=True, text=True, check=True
        ).stdout
        assert "pip install" in needed
        assert "tools.studio build" in needed
    subprocess.run(["make", "setup", "studio"], cwd=clone, check=True, timeout=900)

    with running_demo(tmp_path / "demo", python=str(clone / ".venv" / "bin" / "python")) as demo:
        page = browser.new_page()
        page.goto(f"{demo.url}/?t={demo.token}")
        expect(page).to_have_title("Demo · Stepwell Studio", timeout=TITLE_SECONDS * 1000)
        assert time.monotonic() - demo.began < TITLE_SECONDS
        page.close()
        assert demo.stop() == 0


@pytest.mark.slow
@pytest.mark.skipif(EFFORT is not Effort.ALL, reason="three more builds: before a release")
def test_studio_is_left_out_or_demanded_as_the_builder_says(tmp_path: Path) -> None:
    broken = tmp_path / "tree"
    left_out = shutil.ignore_patterns("node_modules", "studio_files", ".venv", ".git", ".bench", ".*_cache")
    shutil.copytree(ROOT, broken, ignore=left_out)
    (broken / "studio" / "package.json").write_text("{ this is not JSON")

    for mode in ("auto", "skip"):
        folder = tmp_path / mode
        _pip(
            *(sys.executable, "wheel", str(broken), "--no-deps", "--wheel-dir", str(folder)),
            env={"STEPWELL_STUDIO": mode},
        )
        with _wheel(folder) as wheel:
            assert [name for name in wheel.namelist() if PAGES in name] == []
    with pytest.raises(AssertionError, match=r"npm|JSON"):
        _pip(
            *(sys.executable, "wheel", str(broken), "--no-deps", "--wheel-dir", str(tmp_path / "build")),
            env={"STEPWELL_STUDIO": "build"},
        )
