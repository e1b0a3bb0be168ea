"""Every piece of code in README and docs runs, and says what the text says it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# tests/http_client/test_connection.py and tests/docs/test_tutorial.py run them
WITH_A_SERVER = {"http-client.md", "tutorial.md"}
WITH_CODE = [page for page in PAGES if "```python" in page.read_text() and page.name not in WITH_A_SERVER]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_code_in_the_docs_runs(page: Path, tmp_path: Path) -> None:
    said = "".join(
        _run(block, tmp_path / f"flows_{number}.py")
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    )

    for promised in re.findall(r"it prints\s+`([^`]+)`", page.read_text()):
        assert promised in said


def _run(block: str, script: Path) -> str:
    """One after the other in one folder, as a reader would; a block with tests is given to pytest."""
    script.write_text(block)
    how = ["-m", "pytest", "-q"] if "def test_" in block else []
    done = subprocess.run(
        [sys.executable, *how, script],
        cwd=script.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.req("K4", "F1")
def test_the_demo_dies_and_resumes(tmp_path: Path) -> None:
    script = ROOT / "examples" / "crash_and_resume.py"

    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "died with signal 9" in done.stdout
    assert done.stdout.count("charging") == done.stdout.count("shipping 3") == 1
    assert "receipt-42 sent as TRACK-1" in done.stdout


def test_commands_in_the_readme_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    named = set(re.findall(r"`?make ([a-z-]+)", (ROOT / "README.md").read_text()))

    assert named
    assert named <= targets


@pytest.mark.req("D3")
def test_the_readme_begins_with_two_commands_and_has_its_parts() -> None:
    readme = (ROOT / "README.md").read_text()
    example = (ROOT / "examples" / "hello.py").read_text()

    blocks = re.findall(r"```\w*\n(.*?)```", readme, re.DOTALL)
    assert [line.split("#")[0].strip() for line in blocks[0].splitlines()] == ["make demo", "make test"]
    assert blocks[1] == example
    assert len(example.splitlines()) < 30
    for heading in ("Three ways to write one", "What you get", "Guarantees", "How it compares", "Speed"):
        assert f"\n## {heading}\n" in readme
    assert "**Not for**" in readme


@pytest.mark.req("D3")
def test_figures_of_the_readme_are_those_of_the_page_about_performance() -> None:
    speed = (ROOT / "README.md").read_text().partition("\n## Speed\n")[2].partition("\n## ")[0]
    page = (ROOT / "docs" / "performance.md").read_text()

    figures = set(re.findall(r"\d+,\d{3}", speed))
    assert len(figures) >= 8
    assert [figure for figure in figures if figure not in page] == []


def test_what_the_readme_links_to_exists() -> None:
    readme = (ROOT / "README.md").read_text()
    links = re.findall(r"\]\((?!http)([^)#]+)(?:#([^)]+))?\)", readme)
    missing = [page for page, _ in links if not (ROOT / page).exists()]
    anchors = [f"{page}#{anchor}" for page, anchor in links if anchor and anchor not in _anchors(ROOT / page)]

    assert links
    assert (missing, anchors) == ([], [])


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_pictures_of_the_readme_are_small() -> None:
    """`python -m tools.pictures` takes them anew."""
    named = set(re.findall(r"docs/images/[\w.-]+", (ROOT / "README.md").read_text()))
    sizes = {name: (ROOT / name).stat().st_size for name in named}

    assert {Path(name).suffix for name in named} == {".png", ".webp"}
    assert {name: size for name, size in sizes.items() if size > 2_000_000} == {}
    assert sum(sizes.values()) < 4_000_000
