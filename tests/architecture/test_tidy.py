"""Size, names and calls of the package's own modules.

The limits are ratchets. New code has no entry in the tables below and so must fit; an entry may
only shrink, and one that nothing needs any more fails until it is removed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import Module, label, module, package_files, python_files

MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "shared", "misc", "manager", "base_service"}

# "path" or "path:function" -> the lines it may have, with the reason beside it
LARGER: dict[str, int] = {
    "src/stepwell/client/handle.py": 700,  # every verb of a run has a method; what they do is elsewhere
    "src/stepwell/errors.py": 800,  # one tree of all errors
}

LOOSE_TASK = "start it in a task group: a loose task outlives a lost lease"
WALL_CLOCK = "ask the Clock: time is passed in"
BANNED_CALLS = {
    "asyncio.create_task": LOOSE_TASK,
    "asyncio.ensure_future": LOOSE_TASK,
    "asyncio.gather": LOOSE_TASK,
    "datetime.now": WALL_CLOCK,
    "datetime.utcnow": WALL_CLOCK,
    "time.time": WALL_CLOCK,
    "time.time_ns": WALL_CLOCK,
}
LOOP = re.compile(r"(^|\.)(get_running_loop\(\)|get_event_loop\(\)|_?loop)\.(?=create_task$)")

# (path, call) -> why this file may make it
ALLOWED_CALLS: dict[tuple[str, str], str] = {
    ("tests/simulation/simulator/workflows.py", "asyncio.gather"): "workflow code, as users write it",
    ("src/stepwell/system.py", "time.time_ns"): "run ids are ordered by the time they were made",
    ("src/stepwell/app.py", "asyncio.create_task"): "the parent of the worker's group, ended in close()",
    ("src/stepwell/handlers/code.py", "asyncio.create_task"): "the probe writes nothing; ended in close()",
    (
        "src/stepwell/sync_client.py",
        "asyncio.create_task",
    ): "the next item of an iterator outlives the call that asked for it; ended in close()",
    (
        "src/stepwell/engine/execution/step_runner.py",
        "asyncio.create_task",
    ): "it is the parent, and ends them in close()",
    (
        "src/stepwell/engine/context/context.py",
        "asyncio.gather",
    ): "only waits for the cancelled losers of first()",
    (
        "src/stepwell/store/postgres/pool/slots.py",
        "asyncio.create_task",
    ): "a sent statement outlives its caller",
    (
        "src/stepwell/store/postgres/transactions.py",
        "asyncio.create_task",
    ): "nobody may cancel a COMMIT that is on its way",
    (
        "src/stepwell/store/postgres/wakeups.py",
        "asyncio.create_task",
    ): "hints are given from plain calls; ended in close()",
    (
        "src/stepwell/store/postgres/store.py",
        "asyncio.create_task",
    ): "ended in close()",
    (
        "src/stepwell/store/postgres/pool/batcher.py",
        "asyncio.create_task",
    ): "a batch outlives each of its callers",
}


def plain_name(call: str) -> str:
    """One name for the ways to write a call: through a loop, a doubled module, or a bare import."""
    if LOOP.search(call):
        return "asyncio.create_task"
    if call in {"create_task", "ensure_future", "gather"}:
        return f"asyncio.{call}"
    return call.replace("datetime.datetime.", "datetime.")


def size_problems(found: Module) -> Iterator[str]:
    lines = found.text.count("\n")
    if lines > LARGER.get(found.name, MODULE_LINES_MAX):
        yield f"{found.name}: {lines} lines; look for its second noun"
    for function in found.functions():
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length > LARGER.get(f"{found.name}:{function.name}", FUNCTION_LINES_MAX):
            yield f"{found.name}:{function.lineno} {function.name}: {length} lines; it should fit a screen"


def call_problems(found: Module) -> Iterator[str]:
    for node, written in found.calls():
        call = plain_name(written)
        if call in BANNED_CALLS and (found.name, call) not in ALLOWED_CALLS:
            yield f"{found.name}:{node.lineno} {call}: {BANNED_CALLS[call]}"


def test_modules_are_tidy() -> None:
    modules = [module(path) for path in package_files()]

    problems = [problem for each in modules for problem in (*size_problems(each), *call_problems(each))]

    assert not problems, "\n".join(problems)


def test_names_say_what_is_inside() -> None:
    vague = [
        label(path)
        for path in python_files()
        if VAGUE_NAMES & {part.removesuffix(".py") for part in Path(label(path)).parts}
    ]

    assert not vague, f"these names say nothing: {vague}"


def test_every_module_says_what_it_is() -> None:
    silent = [each.name for each in map(module, python_files()) if not ast.get_docstring(each.tree)]

    assert not silent, f"add one to five lines that say what they are: {silent}"


def test_every_exception_is_still_needed() -> None:
    modules = {found.name: found for found in map(module, package_files())}

    stale = [
        f"{name}: {call}"
        for name, call in ALLOWED_CALLS
        if name in modules and call not in {plain_name(made) for _, made in modules[name].calls()}
    ]

    assert not stale, f"remove from ALLOWED_CALLS: {stale}"


@pytest.mark.parametrize(
    "written",
    ["asyncio.create_task", "asyncio.get_running_loop().create_task", "self._loop.create_task", "gather"],
)
def test_loose_tasks_are_recognised(written: str) -> None:
    assert plain_name(written) in BANNED_CALLS


@pytest.mark.parametrize("written", ["group.create_task", "self._turns.create_task", "clock.time"])
def test_tasks_with_a_parent_are_left_alone(written: str) -> None:
    assert plain_name(written) not in BANNED_CALLS
