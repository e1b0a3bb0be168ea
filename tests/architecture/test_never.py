"""Things that must never appear: code from data, SQL from strings, traces of one machine.

The words looked for are put together here from halves, so that this file does not find itself.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator

import pytest

from tests.architecture.sources import ROOT, Module, label, module, package_files, project_files, python_files

CODE_FROM_DATA = {
    "eval": "data must stay data",
    "exec": "data must stay data",
    "compile": "data must stay data",
    "os.system": "no shell",
    "os.popen": "no shell",
    "yaml.load": "use a safe loader",
    "yaml.unsafe_load": "use a safe loader",
    "yaml.full_load": "use a safe loader",
    "shutil.unpack_archive": "its members may leave the folder",
}
UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "jsonpickle"}
# Rules of ruff that look for the same, and for what an address or a template would run.
SECURITY_RULES = ("S102", "S301", "S307", "S324", "S501", "S506", "S602", "S604", "S605", "S608", "S701")

SQL_VERBS = re.compile(
    r"\s*(SELECT\s|INSERT\s+INTO\s|UPDATE\s+\S+\s+SET\s|DELETE\s+FROM\s|WITH\s+\w+\s+AS|CREATE\s+(TABLE|INDEX)\s"
    r"|ALTER\s+TABLE\s|DROP\s+TABLE\s|PRAGMA\s)",
    re.IGNORECASE,
)
# (path, function) -> why SQL that is put together from strings is safe there
BUILT_SQL: dict[tuple[str, str], str] = {
    ("src/stepwell/store/sqlite/move.py", "_select"): "any table of ours, with the columns that it has",
    ("src/stepwell/store/postgres/move.py", "put_whole"): "any table of ours",
    ("src/stepwell/store/postgres/migrate.py", "applied"): "the schema's name is checked in address.py",
    ("src/stepwell/store/postgres/migrate.py", "_apply_next"): "a number of ours and a checksum",
}

MACHINE_PATHS = tuple("/" + name for name in ("work/", "root/", "opt/pypi", "opt/wheels"))
REGISTRY_HOSTS = tuple(name + ".org" for name in ("py" + "pi", "python" + "hosted", "npm" + "js"))
BANNERS = tuple(
    re.compile(text, re.IGNORECASE) for text in ("copy" + "right", "licensed " + "under", "spdx-" + "lic")
)
BANNER_LINES = 12
BANNER_FILES = {".py", ".sql", ".ts", ".tsx", ".js", ".css", ".sh"}


def imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(name)):
            return [name]
    return []


def unsafe(found: Module) -> Iterator[str]:
    for node in ast.walk(found.tree):
        for name in imported(node):
            if name.split(".")[0] in UNSAFE_MODULES:
                yield f"{found.name}: import {name}: loading it runs code"
    for call, name in found.calls():
        if name in CODE_FROM_DATA:
            yield f"{found.name}:{call.lineno} {name}: {CODE_FROM_DATA[name]}"
        for keyword in call.keywords:
            if keyword.arg == "shell" and not (
                isinstance(keyword.value, ast.Constant) and not keyword.value.value
            ):
                yield f"{found.name}:{call.lineno} shell=: pass a list of arguments"


def leading_text(node: ast.expr) -> str | None:
    """The literal beginning of a string that is put together at run time; None for any other expression."""
    match node:
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *rest]) if rest:
            return text
        case ast.BinOp(left=left, op=ast.Add() | ast.Mod()):
            return text_of(left)
        case ast.Call(func=ast.Attribute(value=value, attr="format" | "join" | "replace")):
            return text_of(value)
    return None


def text_of(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return leading_text(node)


def built_sql(found: Module) -> Iterator[str]:
    allowed = {name for path, name in BUILT_SQL if path == found.name}
    excused = {
        id(inner)
        for function in found.functions()
        if function.name in allowed
        for inner in ast.walk(function)
    }
    for node in ast.walk(found.tree):
        if isinstance(node, ast.expr) and id(node) not in excused:
            text = leading_text(node)
            if text is not None and SQL_VERBS.match(text):
                yield f"{found.name}:{node.lineno} SQL put together from strings: put it in a .sql file"


@pytest.mark.req("X10")
def test_the_linter_looks_for_what_must_not_be() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    excused = {
        rule for path, rules in settings["per-file-ignores"].items() if "src" in path for rule in rules
    }

    assert "S" in settings["select"]
    assert not set(SECURITY_RULES) & set(settings["ignore"])
    assert not (set(SECURITY_RULES) - {"S608"}) & excused
    assert "S" not in excused


@pytest.mark.req("X10")
@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from marshal import loads",
        "eval(text)",
        "exec(text)",
        "compile(text, name, mode)",
        "yaml.load(text)",
        "os.system(text)",
        "subprocess.run(text, shell=True)",
    ],
)
def test_code_from_data_is_recognised(source: str) -> None:
    assert list(unsafe(Module(name="sample.py", text=source, tree=ast.parse(source))))


@pytest.mark.req("X10")
def test_no_code_from_data() -> None:
    problems = [problem for path in python_files() for problem in unsafe(module(path))]

    assert not problems, "\n".join(problems)


@pytest.mark.req("X10")
def test_no_sql_from_strings() -> None:
    problems = [problem for path in package_files() for problem in built_sql(module(path))]

    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    "source",
    [
        'f"SELECT * FROM {table}"',
        '"DELETE FROM runs WHERE id = %s" % run',
        '"INSERT INTO " + table',
        '"UPDATE {} SET a = 1".format(table)',
    ],
)
def test_sql_from_strings_is_recognised(source: str) -> None:
    found = Module(name="sample.py", text=source, tree=ast.parse(source))

    assert list(built_sql(found))


@pytest.mark.parametrize("source", ['"SELECT 1"', 'f"update {name}"', 'f"{number} rows"', '"a" + "b"'])
def test_plain_sql_and_prose_are_left_alone(source: str) -> None:
    found = Module(name="sample.py", text=source, tree=ast.parse(source))

    assert not list(built_sql(found))


def test_no_file_names_a_machine_or_a_registry() -> None:
    problems: list[str] = []
    for path in project_files():
        text = path.read_text(encoding="utf-8", errors="ignore")
        problems += [f"{label(path)}: {word}" for word in (*MACHINE_PATHS, *REGISTRY_HOSTS) if word in text]

    assert not problems, "\n".join(problems)


def test_no_licence_banners() -> None:
    banners = [
        f"{label(path)}:{number}"
        for path in project_files()
        if path.suffix in BANNER_FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()[:BANNER_LINES], start=1)
        if any(banner.search(line) for banner in BANNERS)
    ]

    assert not banners, f"the licence is said once, in the project file: {banners}"
