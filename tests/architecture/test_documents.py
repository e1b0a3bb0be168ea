"""Documents: every id, package and page that code or a page names exists, and an id means one thing."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE, ROOT, label, module, project_files

INTERNALS = ROOT / "docs" / "internals"
READ = {".py", ".sql", ".md"}
LOOKED_AT = ("src", "tests", "tools", "bench", "examples", "docs")

# K3, W7r, I12, BI-G26, FI-3, GR-J4b, GC-K06, PT-01, Rule 6, Hazard 25
ID = re.compile(
    r"(?<![\w`/-])(?<!\w\.)"
    r"(?:(?:BI|FI|GC|GR|PT)-[A-Z]?\d{1,2}[a-z]?|[A-Z]\d{1,2}[a-z]?|(?:Rule|Hazard) \d{1,2})"
    r"(?![\w-])"
)
DEFINED = re.compile(rf"^(?:\| |### )({ID.pattern})(?: to ({ID.pattern}))?(?: \||: )", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)")
MARK = re.compile(r"mark\.req\([^)]*\)")
# Pages that the code once referred to; theirs are the pages of docs/internals.
ELSEWHERE = re.compile(r"\b(?:PROTOCOL|RELIABILITY|GRAPHS|REQUIREMENTS|DESIGN)\b(?!\s*=)")


def definitions() -> Iterator[tuple[str, str]]:
    """(id, page) of every id that a page of docs/internals defines, ranges written out."""
    for page in sorted(INTERNALS.glob("*.md")):
        for match in DEFINED.finditer(page.read_text(encoding="utf-8")):
            first, last = match[1], match[2] or match[1]
            stem = first.rstrip("0123456789")
            if first == last:
                yield first, page.name
                continue
            for number in range(int(first[len(stem) :]), int(last[len(stem) :]) + 1):
                yield f"{stem}{number:02}", page.name


def prose(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """(line, text) of what people read in a file: comments and docstrings, or the page without its code.

    Nothing of a file that has the wanted text in its marks only: reading tokens takes long.
    """
    if path.suffix not in READ or not wanted.search(MARK.sub("", path.read_text(encoding="utf-8"))):
        return
    if path.suffix == ".py":
        yield from comments(path)
        yield from docstrings(path)
    elif path.suffix == ".sql":
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield number, line.partition("--")[2]
    elif path.suffix == ".md":
        yield 1, FENCED.sub("", path.read_text(encoding="utf-8"))


def comments(path: Path) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(module(path).text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module(path).tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "lineno", 1), ast.get_docstring(node, clean=False) or ""


def marks(path: Path) -> Iterator[tuple[int, str]]:
    """(line, id) of every `req` mark."""
    text = path.read_text(encoding="utf-8")
    for mark in MARK.finditer(text):
        yield from ((text.count("\n", 0, mark.start()) + 1, name) for name in re.findall(r'"(.*?)"', mark[0]))


def read_by_people() -> list[Path]:
    return [path for path in project_files() if label(path).split("/")[0] in LOOKED_AT]


def python_in(*tops: str) -> list[Path]:
    return [path for path in read_by_people() if path.suffix == ".py" and label(path).split("/")[0] in tops]


def test_every_id_means_one_thing() -> None:
    counted = Counter(name for name, _ in definitions())

    assert {name: times for name, times in counted.items() if times > 1} == {}
    assert {"K3", "I7", "FI-3", "BI-G26", "BI-H14", "GR-J4b", "GC-K06", "PT-45", "Rule 6"} <= set(counted)


def test_every_id_that_people_read_is_defined() -> None:
    known = {name for name, _ in definitions()}

    unknown = [
        f"{label(path)}:{line} {name[0]}"
        for path in read_by_people()
        for line, text in prose(path, ID)
        for name in ID.finditer(text)
        if name[0] not in known
    ]

    assert not unknown, "\n".join(["define these in docs/internals, or name them otherwise:", *unknown])


def test_every_mark_names_what_is_defined() -> None:
    known = {name for name, _ in definitions()}

    unknown = [
        f"{label(path)}:{line} {name}"
        for path in python_in("src", "tests")
        for line, name in marks(path)
        if name not in known
    ]

    assert not unknown, "\n".join(["define these in docs/internals/requirements.md:", *unknown])


def named_in_tests() -> dict[str, set[str]]:
    """The ids of bad inputs and attacks that each test file names, with ranges written out."""
    named: dict[str, set[str]] = {}
    for path in python_in("tests"):
        if path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8")
        found = set(ID.findall(text)) | set(re.findall(r'"(BI-\w+)"', text))
        for first, last in re.findall(r"((?:BI|PT)-[A-Z]?\d\d) to ((?:BI|PT)-[A-Z]?\d\d)", text):
            found |= {f"{first[:-2]}{number:02}" for number in range(int(first[-2:]), int(last[-2:]) + 1)}
        named[label(path)] = found
    return named


def test_every_bad_input_of_requests_graphs_and_messages_has_a_test() -> None:
    named = set().union(*named_in_tests().values())
    rows = {name for name, _ in definitions() if re.fullmatch(r"BI-[AGS]\d\d", name)}

    assert len(rows) > 60
    assert rows - named == set(), "name the row in the docstring of its test"


def test_attacks_on_the_server_are_named_by_their_tests() -> None:
    named = named_in_tests()
    page = (INTERNALS / "reliability.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`test_\w+\.py`.*) \| (PT-\d\d(?:, PT-\d\d)*) \|$", page, re.MULTILINE)

    unnamed = [
        f"tests/server/{file}: {attack}"
        for files, attacks in rows
        for file in re.findall(r"`(test_\w+\.py)`", files)
        for attack in attacks.split(", ")
        if attack not in named[f"tests/server/{file}"]
    ]
    assert len(rows) >= 7
    assert unnamed == []


def test_every_reference_leads_to_a_page_of_the_repository() -> None:
    astray = [
        f"{label(path)}:{line} {match[0]}"
        for path in python_in("src", "tests", "tools", "bench", "examples")
        for line, text in prose(path, ELSEWHERE)
        for match in ELSEWHERE.finditer(text)
        if path != Path(__file__)
    ]

    assert not astray, "\n".join(["name a page of docs/internals instead:", *astray])


def test_every_link_leads_to_a_file() -> None:
    pages = [path for path in project_files() if path.suffix == ".md"]

    broken = [
        f"{label(page)}: {target}"
        for page in pages
        for target in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
        if not (page.parent / target).exists()
    ]

    assert not broken, "\n".join(broken)


def test_architecture_names_every_package() -> None:
    page = (INTERNALS / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([\w/]+)` \|", page, re.MULTILINE))
    packages = {
        folder.parent.relative_to(PACKAGE).as_posix().replace(".", "stepwell")
        for folder in PACKAGE.rglob("__init__.py")
    }

    assert packages - named == set(), "say in docs/internals/architecture.md what is inside"
    outside = {name for name in named if (ROOT / name).is_dir() and name not in packages}
    assert named - packages - outside == set(), "these are gone"


def test_glossary_has_one_line_a_word() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| (.+?) \| .+ \|$", page.partition("## Words")[0], re.MULTILINE)[1:]

    assert words == sorted(set(words), key=str.casefold)
    assert {"run", "log", "inbox", "ticket", "lease", "commit", "park", "replay"} <= set(words)


def test_the_list_of_documentation_leads_to_every_page() -> None:
    docs = ROOT / "docs"
    listed = set(re.findall(r"\]\(([^)]+)\)", (docs / "README.md").read_text(encoding="utf-8")))
    pages = {f"{path.relative_to(docs)}" for path in [*docs.glob("*.md"), *docs.glob("internals/*.md")]}
    examples = {f"../examples/{path.name}" for path in (ROOT / "examples").glob("*.py")}

    assert "](docs/README.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert (pages | examples | {"../CONTRIBUTING.md"}) - listed == {"README.md"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("lost (Rule 6), see GR-J4b and I1..I18", ["Rule 6", "GR-J4b", "I1", "I18"]),
        ("W7r, K3: BI-G26; FI-3", ["W7r", "K3", "BI-G26", "FI-3"]),
        ("RE2, UUIDv7, 40P01, x.K3, abcK3, 0x1F, K345", []),
    ],
)
def test_ids_are_recognised(text: str, names: list[str]) -> None:
    assert ID.findall(text) == names


def test_files_that_the_internals_name_exist() -> None:
    """Paths are below src/stepwell or the repository's root; `store/*/messages.py` stands for several."""
    gone = [
        f"{page.name}: {name}"
        for page in INTERNALS.glob("*.md")
        for name in re.findall(r"`([\w*/]+/[\w*]+\.(?:py|sql|md))`", page.read_text(encoding="utf-8"))
        if not list(PACKAGE.glob(name)) and not list(ROOT.glob(name)) and not list(ROOT.glob(f"docs/{name}"))
    ]

    assert not gone, f"moved or removed: {gone}"
