"""What is wrong with a machine is told when it is defined, all at once; a right one is JSON and a drawing."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pydantic
import pytest

from stepwell import Context, Machine, Retry, transition
from stepwell.errors import InvalidDefinition, InvalidInput
from tests.authoring.machines.approvals import Review
from tests.engines import Engines


class Model(pydantic.BaseModel):
    amount: int = 0


@dataclass
class Needs:
    amount: int


def unknown_target() -> None:
    class Bad(Machine[dict[str, int]]):
        ends = frozenset({"paid"})

        @transition("start", "payed")
        async def go(self, ctx: Context) -> None: ...

        @transition("start", "paid", wait=True, when=lambda state: True)
        async def other(self, ctx: Context) -> None: ...


def dead_end() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "limbo", when=lambda state: True)
        async def go(self, ctx: Context) -> None: ...

        @transition("start", "end")
        async def other(self, ctx: Context) -> None: ...


def unknown_error_place() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "end", retry=Retry(2, then="nowhere"))
        async def go(self, ctx: Context) -> None: ...


def unreachable() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "end")
        async def go(self, ctx: Context) -> None: ...

        @transition("island", "island", wait=True)
        async def circle(self, ctx: Context) -> None: ...


def two_starts() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "end")
        async def go(self, ctx: Context) -> None: ...

        @transition("begin", "end")
        async def also(self, ctx: Context) -> None: ...


def no_start() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("begin", "end")
        async def go(self, ctx: Context) -> None: ...


def two_plain_exits() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "end")
        async def go(self, ctx: Context) -> None: ...

        @transition("start", "end")
        async def also(self, ctx: Context) -> None: ...


def never_waited_for() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "end")
        async def go(self, ctx: Context) -> None: ...

        @transition("start", "end", wait=True)
        async def ask(self, ctx: Context) -> None: ...


def wait_without_schema() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "end", wait="yes")
        async def go(self, ctx: Context) -> None: ...


def wait_with_unreadable_type() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "end", wait=Callable[[int], int])
        async def go(self, ctx: Context) -> None: ...


def zero_timeout() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "end", timeout=0)
        async def go(self, ctx: Context) -> None: ...


def odd_retry() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "end", retry=3)  # type: ignore[arg-type]  # what is tested
        async def go(self, ctx: Context) -> None: ...


def odd_signature() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "end")
        async def go(self, ctx: Context, one: int, two: int) -> None: ...


def odd_guard() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "end", when=lambda a, b, c: True)
        async def go(self, ctx: Context) -> None: ...


def reserved_name() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "end")
        async def run(self, ctx: Context) -> None: ...  # type: ignore[override]  # what is tested


def leaves_an_end() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "end")
        async def go(self, ctx: Context) -> None: ...

        @transition("end", "end", wait=True)
        async def back(self, ctx: Context) -> None: ...


def unreached_end() -> None:
    class Bad(Machine[dict[str, int]]):
        ends = frozenset({"end", "other"})

        @transition("start", "end")
        async def go(self, ctx: Context) -> None: ...


def no_state() -> None:
    class Bad(Machine):  # type: ignore[type-arg]  # what is tested
        @transition("start", "end")
        async def go(self, ctx: Context) -> None: ...


def state_without_defaults() -> None:
    class Bad(Machine[Needs]):
        @transition("start", "end")
        async def go(self, ctx: Context) -> None: ...


def said_twice() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "end", on_error="end", retry=Retry(2, then="end"))
        async def go(self, ctx: Context) -> None: ...


def odd_on_failure() -> None:
    class Bad(Machine[dict[str, int]], on_failure="explode"):  # type: ignore[arg-type]  # the test
        @transition("start", "end")
        async def go(self, ctx: Context) -> None: ...


def misspelt_option() -> None:
    class Bad(Machine[dict[str, int]], timeot="1h"):
        @transition("start", "end")
        async def go(self, ctx: Context) -> None: ...


def odd_ends() -> None:
    class Bad(Machine[dict[str, int]]):
        ends = "done"

        @transition("start", "done")
        async def go(self, ctx: Context) -> None: ...


def timeout_of_nothing() -> None:
    class Bad(Machine[dict[str, int]]):
        @transition("start", "end", timeout=None, on_timeout="late")
        async def go(self, ctx: Context) -> None: ...

        @transition("late", "end")
        async def excuse(self, ctx: Context) -> None: ...


CASES = [
    (odd_on_failure, "Bad", """on_failure='explode'; use "compensate" or "hold\""""),
    (misspelt_option, "Bad", "timeot= is not an option of a machine; did you mean 'timeout'?"),
    (odd_ends, "Bad", "ends = 'done' is not a set of places"),
    (timeout_of_nothing, "go", "'late' is never reached: timeout=None disables the timeout"),
    (unknown_target, "go", "'payed' is not a place of this machine; did you mean 'paid'?"),
    (dead_end, "go", "'limbo' is a dead end"),
    (unknown_error_place, "go", "Retry(then) 'nowhere' is a dead end"),
    (unreachable, "circle", "'island' cannot be reached from 'start'"),
    (two_starts, "also", "nothing leads to 'begin': a machine has one start"),
    (no_start, "Bad", "no transition leaves 'start'"),
    (two_plain_exits, "also", "leaves 'start' automatically, and so does go"),
    (never_waited_for, "ask", "can never be triggered: go leaves 'start' automatically"),
    (wait_without_schema, "go", "wait='yes' is not a type"),
    (wait_with_unreadable_type, "go", "wait="),
    (zero_timeout, "go", "timeout=None disables"),
    (odd_retry, "go", "retry=3 is not a Retry"),
    (odd_signature, "go", "(self, ctx, payload)"),
    (odd_guard, "go", "(state, input)"),
    (reserved_name, "run", "'run' is reserved by Machine"),
    (leaves_an_end, "back", "nothing leaves an end"),
    (unreached_end, "Bad", "'other' is in ends, but nothing leads to it"),
    (no_state, "Bad", "class X(Machine[XState])"),
    (state_without_defaults, "Bad", "cannot be created with Needs()"),
    (said_twice, "go", "both say where to go; keep one"),
]


@pytest.mark.req("M8", "M7", "M1")
@pytest.mark.parametrize(("define", "method", "text"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_bad_definition_is_told_with_method_and_line(
    define: Callable[[], None], method: str, text: str
) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        define()

    lines = [line for line in caught.value.message.splitlines() if text in line]
    assert lines, caught.value.message
    where = lines[0].split("- ")[1].split(" ")[0]
    assert where == f"test_definitions.py:{_line_of(define.__name__, method)}"
    assert f"{method}:" in lines[0]


def _line_of(function: str, name: str) -> int:
    """Where the decorator of the method, or the class, stands in this file."""
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    outer = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == function)
    for node in ast.walk(outer):
        if isinstance(node, ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            decorators = [decorator.lineno for decorator in node.decorator_list]
            return min([node.lineno, *decorators])
    raise AssertionError(name)


@pytest.mark.req("M8")
def test_a_problem_of_one_transition_is_not_told_again_of_those_behind_it() -> None:
    with pytest.raises(InvalidDefinition) as caught:

        class Bad(Machine[dict[str, int]]):
            @transition("start", "half", retry=3)  # type: ignore[arg-type]  # the test
            async def one(self, ctx: Context) -> None: ...

            @transition("half", "end")
            async def two(self, ctx: Context) -> None: ...

    assert "has 1 problem:" in caught.value.message


@pytest.mark.req("M8")
def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InvalidDefinition) as caught:

        class Bad(Machine[Needs]):
            ends = frozenset({"end", "never"})

            @transition("start", "end", timeout=0)
            async def one(self, ctx: Context) -> None: ...

            @transition("start", "somewhere")
            async def two(self, ctx: Context) -> None: ...

            @transition("begin", "end", wait=5)
            async def three(self, ctx: Context) -> None: ...

            @transition("other", "end")
            async def four(self, ctx: Context) -> None: ...

    text = caught.value.message
    assert "has 8 problems" in text
    for word in (" one: ", " two: ", " three: ", " four: ", "'never'", "Needs()"):
        assert word in text


@pytest.mark.req("M1")
async def test_a_source_may_be_a_list_and_machines_inherit(memory_engines: Engines) -> None:
    class Base(Machine[dict[str, str]], abstract=True):
        @transition(["start", "again"], "middle")
        async def enter(self, ctx: Context) -> None:
            self.state["from"] = self.state.get("from", "") + "."

    class Whole(Base, name="whole", version="2"):
        @transition("middle", "again", when=lambda state: len(state["from"]) < 3)
        async def back(self, ctx: Context) -> None: ...

        @transition("middle", "end")
        async def leave(self, ctx: Context) -> None: ...

    async with memory_engines.new(Whole) as engine:
        run = await engine.start("whole", None)

        assert await run.result(15) == {"from": "..."}
    assert (Whole.definition.name, Whole.definition.version, Whole.definition.kind) == (
        "whole",
        "2",
        "machine",
    )


@pytest.mark.req("M1", "F9")
async def test_state_may_be_a_model_and_the_input_is_checked_at_the_door(engines: Engines) -> None:
    class Typed(Machine[Model]):
        @transition("start", "end")
        async def take(self, ctx: Context, order: Model) -> None:
            self.state.amount = order.amount

    async with engines.new(Typed) as engine:
        assert await engine.run(Typed, Model(amount=3)) == Model(amount=3)
        with pytest.raises(InvalidInput):
            await engine.start(Typed, {"amount": "much"})
        with pytest.raises(InvalidInput, match="amount"):
            await engine.start("Typed", {"amount": "much"})


@pytest.mark.req("M8", "K8")
async def test_the_definition_is_json_for_those_without_the_code(engines: Engines) -> None:
    async with engines.new(Review):
        pass
    if engines.kind == "memory":
        body = msgspec.json.decode(Review.definition.body)
    else:
        async with engines.client() as client:
            found = await client.store.read_definition("default", "Review", "")
        assert found is not None
        body = msgspec.json.decode(found.body)

    assert body["start"] == "start"
    assert body["ends"] == ["published"]
    assert [place["name"] for place in body["places"]] == [
        "start",
        "draft",
        "review",
        "approved",
        "published",
    ]
    approve = next(t for t in body["transitions"] if t["name"] == "approve")
    assert (approve["sources"], approve["target"], approve["wait"]) == (["review"], "approved", True)
    assert "by" in str(approve["form"])
    assert approve["timeout"] == 300
    assert approve["retry"]["attempts"] == 1


@pytest.mark.req("M8")
def test_a_machine_is_drawn() -> None:
    text = Review.drawing()
    picture = Review.drawing("svg")

    assert text.startswith("stateDiagram-v2\n")
    assert 'state "review" as p2' in text
    assert "p2 --> p1: ⏸ rework" in text
    assert "p4 --> [*]" in text
    words = [element.text for element in ElementTree.fromstring(picture).iter() if element.text]
    for word in ("start", "draft", "review", "approved", "published", "approve", "rework"):
        assert word in words
    assert "<script" not in picture


@pytest.mark.req("M8")
@pytest.mark.parametrize("format", ["png", "", None, ["svg"]])
def test_a_drawing_in_a_format_that_there_is_not_is_refused(format: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        Review.drawing(format)

    assert caught.value.message == f"Review.drawing({format!r}): unknown format"
    assert caught.value.hint == "use 'mermaid' or 'svg'"


def test_names_in_a_drawing_are_text() -> None:
    class Odd(Machine[dict[str, Any]]):
        ends = frozenset({'<b>"&'})

        @transition("start", '<b>"&')
        async def go(self, ctx: Context) -> None: ...

    words = [e.text for e in ElementTree.fromstring(Odd.drawing("svg")).iter() if e.text]

    assert '<b>"&' in words
