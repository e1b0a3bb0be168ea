"""Which requirement is held by which test: reads `@pytest.mark.req("K3")` in tests/, runs nothing.

    python -m tools.requirements           the table; exit code 1 if an id that is held has no test

The ids and their status stand in docs/internals/requirements.md. A mark on a function counts for that
test, on a class for its tests, in `pytestmark` for the file.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "internals" / "requirements.md"
STATUSES = ("held", "part", "planned")
ROW = re.compile(r"^\| ([A-Z]\d+[a-z]?) \| (\w+) \|", re.MULTILINE)

Holder = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Found = dict[str, list[str]]  # id -> tests that carry it


def read_statuses(page: str) -> dict[str, str]:
    """id -> status, in the order of the page."""
    statuses: dict[str, str] = {}
    for name, status in ROW.findall(page):
        if status not in STATUSES:
            raise ValueError(f"{name} is {status!r}; a status is one of {', '.join(STATUSES)}")
        if name in statuses:
            raise ValueError(f"{name} stands twice in the page")
        statuses[name] = status
    return statuses


def held(statuses: Mapping[str, str]) -> list[str]:
    return [name for name, status in statuses.items() if status == "held"]


def ids_of_mark(node: ast.expr) -> Iterator[str]:
    """The ids of `pytest.mark.req("K3", "K4")`, also inside a list of marks or a `pytest.param`."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and ast.unparse(inner.func) in {"pytest.mark.req", "mark.req"}:
            for argument in inner.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


def pytestmarks(body: Sequence[ast.stmt]) -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                yield from ids_of_mark(value)
            case ast.AnnAssign(target=ast.Name(id="pytestmark"), value=ast.expr() as value):
                yield from ids_of_mark(value)


def tests_in(body: Sequence[ast.stmt], inherited: Sequence[str], prefix: str) -> Iterator[tuple[str, str]]:
    """(id, test) for every test in the body; a class hands its marks on to its tests."""
    for node in body:
        if not isinstance(node, Holder):
            continue
        own = [*inherited, *(mark for decorator in node.decorator_list for mark in ids_of_mark(decorator))]
        name = f"{prefix}::{node.name}"
        if isinstance(node, ast.ClassDef):
            yield from tests_in(node.body, [*own, *pytestmarks(node.body)], name)
        elif node.name.startswith("test"):
            for mark in dict.fromkeys(own):
                yield mark, name


def scan(tests: Path) -> Found:
    found: Found = {}
    for path in sorted(tests.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        label = path.relative_to(tests.parent).as_posix()
        for mark, test in tests_in(tree.body, list(pytestmarks(tree.body)), label):
            found.setdefault(mark, []).append(test)
    return found


def report(found: Mapping[str, Sequence[str]], promised: Iterable[str]) -> Iterator[str]:
    promised = list(promised)
    for name in promised:
        tests = found.get(name, ())
        yield f"{name:<4} {len(tests)} test{'' if len(tests) == 1 else 's'}"
        yield from (f"       {test}" for test in tests)
    beyond = sorted(set(found) - set(promised))
    if beyond:
        yield f"tested in part or ahead of its status: {' '.join(beyond)}"
    missing = without_test(found, promised)
    yield f"held: {len(promised) - len(missing)} of {len(promised)}"
    yield f"without a test: {' '.join(missing) or 'none'}"


def without_test(found: Mapping[str, Sequence[str]], promised: Iterable[str]) -> list[str]:
    return [name for name in promised if not found.get(name)]


def main() -> int:
    promised = held(read_statuses(PAGE.read_text(encoding="utf-8")))
    found = scan(ROOT / "tests")
    print("\n".join(report(found, promised)))
    return 1 if without_test(found, promised) else 0


if __name__ == "__main__":
    sys.exit(main())
