"""Names and prose: one meaning a name, nouns for modules, and the idioms that this project does not use."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE, ROOT, label, module, package_files

SMALL_LINES = 70

# A public class may share its name with another one only for a reason.
TWICE: dict[str, str] = {
    "RunCancelling": "the engine's is also an asyncio.CancelledError; errors.py must not import asyncio",
}

# Modules that end in -ing and are nouns.
NOUNS = {"drawing", "keyring", "parking"}

# A module under 70 lines that only one other module imports, with the reason why it stands alone.
_MIRROR = "the stores mirror each other's files"
_GRAPHS = "src/stepwell/authoring/graphs"
SMALL: dict[str, str] = {
    f"{_GRAPHS}/expressions/collection_functions.py": "beside text, number and time functions",
    f"{_GRAPHS}/expressions/relations.py": "the hot path of comparisons, measured",
    f"{_GRAPHS}/history/node_config.py": "how templates are filled in for readers, apart from what happened",
    f"{_GRAPHS}/run/event_mailbox.py": "tested without the frontier",
    "src/stepwell/authoring/functions/record_steps.py": "steps that every style may use",
    "src/stepwell/authoring/conditions.py": "expressions of triggers, apart from those of graphs",
    "src/stepwell/server/record_routes.py": "a table of routes beside their handlers",
    "src/stepwell/store/trigger_store.py": "a group of verbs; base.py has no room",
    "src/stepwell/client/verb_groups.py": "the groups of verbs that the client offers",
    "src/stepwell/cli/codec.py": "imports what only an encrypted database needs",
    "src/stepwell/http_client/database.py": "mirrors client/database.py",
    "src/stepwell/client/broadcasts.py": "a noun of its own beside runs, keys and secrets",
    "src/stepwell/sandbox/places.py": "tested without processes",
    "src/stepwell/engine/run/assignees.py": "whom an approval asks; waits.py is about waiting",
    "src/stepwell/engine/context/styles.py": "the style rules of functions and graphs",
    "src/stepwell/engine/machine/context.py": "mirrors engine/context/context.py",
    "src/stepwell/engine/worker/retention.py": "a loop of the worker",
    "src/stepwell/http_client/event_stream.py": "how a log is followed over lost connections",
    "src/stepwell/http_client/event_triggers.py": "mirrors client/event_triggers.py",
    "src/stepwell/http_client/alerts.py": "mirrors client/alerts.py",
    "src/stepwell/http_client/keys.py": "mirrors client/keys.py",
    "src/stepwell/http_client/secrets.py": "mirrors client/secrets.py",
    "src/stepwell/http_client/webhooks.py": "mirrors client/webhooks.py",
    "src/stepwell/http_client/workflows.py": "mirrors client/workflows.py",
    "src/stepwell/handlers/notify_node.py": "a node type has a module",
    "src/stepwell/handlers/query.py": "a node type has a module",
    "src/stepwell/handlers/wait.py": "a node type has a module",
    "src/stepwell/server/exposition.py": "the text format, apart from what is measured",
    "src/stepwell/server/health.py": "the routes that anybody may call",
    "src/stepwell/server/holds.py": "the routes of a noun have a module",
    "src/stepwell/store/encoded_tags.py": "the one value that is encoded in two ways",
    "src/stepwell/store/memory/access.py": _MIRROR,
    "src/stepwell/store/memory/holds.py": _MIRROR,
    "src/stepwell/store/sqlite/secrets.py": _MIRROR,
    "src/stepwell/store/postgres/secrets.py": _MIRROR,
    "src/stepwell/store/memory/secrets.py": _MIRROR,
    "src/stepwell/store/memory/maintenance.py": _MIRROR,
    "src/stepwell/store/memory/step_logs.py": _MIRROR,
    "src/stepwell/store/postgres/remote_steps.py": _MIRROR,
    "src/stepwell/store/postgres/step_logs.py": _MIRROR,
    "src/stepwell/store/sqlite/access.py": _MIRROR,
    "src/stepwell/store/sqlite/maintenance.py": _MIRROR,
    "src/stepwell/store/sqlite/rates.py": _MIRROR,
    "src/stepwell/store/sqlite/reader.py": "a thread of its own, beside the writer's",
    "src/stepwell/store/sqlite/remote_steps.py": _MIRROR,
    "src/stepwell/store/sqlite/step_logs.py": _MIRROR,
    "src/stepwell/store/sqlite/write_intent.py": "a protocol between processes",
    "src/stepwell/testing/graphs/task.py": "a node type has a module",
    "src/stepwell/testing/stores/codec.py": "the rules of a noun have a module",
}

# What to write instead is in docs/glossary.md and CONTRIBUTING.md.
IDIOMS = {
    r"(?<!there )\b(is|are|was|were) no\b(?! (more|less|longer|later|worse|better|need|one))": "is not a",
    r"\btold\b": "says, reports, records",
    r"\bso many\b": "at most, the number of",
    r"\bwhoever\b": "name the subject",
    r"\bany more\b(?! than)": "no longer",
    r"\bfor ever\b": "forever",
    r"\bmend(s|ed|ing)?\b": "fix",
}
NAMES = {"found", "told"}
# The guarantee is quoted word for word everywhere.
QUOTED = "on disk before you are told"


def imports(tree: ast.Module) -> set[str]:
    """Dotted names that a module imports; of `from a import b` both `a` and `a.b`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def public_classes() -> Iterator[tuple[str, str]]:
    for path in package_files():
        for node in module(path).tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, label(path)


def test_every_public_class_name_has_one_meaning() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for name, place in public_classes():
        places[name].append(place)

    twice = {name: where for name, where in places.items() if len(where) > 1 and name not in TWICE}

    assert not twice, twice
    assert not [name for name in TWICE if len(places[name]) < 2], "remove from TWICE what is unique"


def test_modules_are_nouns() -> None:
    gerunds = [
        label(path) for path in package_files() if path.stem.endswith("ing") and path.stem not in NOUNS
    ]

    assert not gerunds, f"name the thing, not what happens: {gerunds}"


def test_a_small_module_with_one_importer_has_a_reason() -> None:
    importers: Counter[str] = Counter()
    for path in package_files():
        importers.update(imports(module(path).tree))

    small = [
        label(path)
        for path in package_files()
        if path.stem not in {"__init__", "__main__"}
        and module(path).text.count("\n") < SMALL_LINES
        and importers[dotted(path)] == 1
    ]

    assert sorted(set(small) - set(SMALL)) == [], "fold them into their importers, or give a reason in SMALL"
    assert sorted(set(SMALL) - set(small)) == [], "remove from SMALL what is no longer small"


def written() -> Iterator[tuple[str, int, str]]:
    """(file, line, text) of everything that people read: the package, its SQL, the pages of docs."""
    for path in package_files():
        for number, line in enumerate(module(path).text.splitlines(), 1):
            yield label(path), number, line
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield label(path), number, line
    for path in sorted(PACKAGE.rglob("*.sql")):
        if "migrations" not in path.parts:
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                yield label(path), number, line


@pytest.mark.parametrize(("idiom", "instead"), IDIOMS.items(), ids=lambda value: str(value)[:24])
def test_prose_is_idiomatic(idiom: str, instead: str) -> None:
    pattern = re.compile(idiom, re.IGNORECASE)

    places = [
        f"{name}:{number} {line.strip()[:90]}"
        for name, number, line in written()
        if pattern.search(line.replace(QUOTED, ""))
    ]

    assert not places, f"write {instead!r}:\n" + "\n".join(places)


def test_names_say_what_they_hold() -> None:
    places = [
        f"{label(path)}:{node.lineno} {node.id}"
        for path in package_files()
        for node in ast.walk(module(path).tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMES
    ]

    assert not places, "name the thing:\n" + "\n".join(places)
