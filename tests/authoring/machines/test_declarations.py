"""Machines that are declared in ways that cannot work: each mistake is told as ours, with its place."""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NewType, TypedDict, TypeVar

import pytest

from stepwell import Context, Machine, RunFailed, run_stateless, step, transition, workflow
from stepwell.errors import InvalidDefinition

T = TypeVar("T")
U = TypeVar("U")


@dataclass
class Order:
    amount: int = 7


def told(define: Callable[[], object]) -> str:
    """What is said of a definition; all of it stands in this file."""
    with pytest.raises(InvalidDefinition) as caught:
        define()
    lines = caught.value.message.splitlines()
    assert all(line.startswith("  - test_declarations.py:") for line in lines[1:]), lines
    return caught.value.message


@pytest.mark.req("M8")
def test_a_bad_name_and_version_are_told_with_the_other_mistakes() -> None:
    def define() -> None:
        class Bad(Machine[dict[str, int]], name="a/b", version=2):  # type: ignore[arg-type]  # the test
            @transition("start", "end", timeout=0)
            async def go(self, ctx: Context) -> None: ...

    text = told(define)

    assert "has 3 problems" in text
    assert "Bad: 'a/b' cannot be the name of a machine; use 1 to 200 printable" in text
    assert "Bad: 2 cannot be the version of a machine; give text: '2'" in text
    assert " go: " in text


class Calls:
    def __call__(self, machine: Any, ctx: Any) -> None: ...


async def go(self: Any, ctx: Context) -> None: ...


@pytest.mark.req("M8")
@pytest.mark.parametrize("other", [classmethod, staticmethod, step])
@pytest.mark.parametrize("under", [True, False], ids=["under", "over"])
def test_what_is_no_plain_method_is_told_with_the_other_mistakes(other: Any, under: bool) -> None:
    declare = transition("start", "half")

    def define() -> None:
        class Bad(Machine[dict[str, int]]):
            async def go(self, ctx: Context) -> None: ...

            go = declare(other(go)) if under else other(declare(go))

            @transition("half", "end", timeout=0)
            async def more(self, ctx: Context) -> None: ...

    text = told(define)

    assert "has 2 problems" in text
    assert f" go: it is a {other.__name__}" in text
    assert " more: " in text


@pytest.mark.req("M8")
@pytest.mark.parametrize(
    "given", [functools.partial(go), functools.partialmethod(go), property(str), print, Calls(), Calls, 5]
)
def test_what_cannot_be_a_method_is_refused_where_it_stands(given: Any) -> None:
    with pytest.raises(
        InvalidDefinition, match=r"test_declarations\.py:\d+ @transition is on .* is not a method"
    ):
        transition("start", "end")(given)


@pytest.mark.req("M8")
def test_two_transitions_on_one_method_are_told() -> None:
    def define() -> None:
        class Bad(Machine[dict[str, int]]):
            @transition("start", "half")
            @transition("half", "end")
            async def go(self, ctx: Context) -> None: ...

    assert "go: it has @transition twice, and one is lost" in told(define)


@pytest.mark.req("M1")
def test_a_method_in_a_wrapper_of_its_own_is_a_transition() -> None:
    def logged(method: Any) -> Any:
        @functools.wraps(method)
        async def wrapper(*args: Any) -> None:
            await method(*args)

        return wrapper

    class Fine(Machine[dict[str, int]]):
        @transition("start", "end")
        @logged
        async def go(self, ctx: Context) -> None: ...

    assert Fine.definition.name == "Fine"


class Base(Machine[T], abstract=True):
    @transition("start", "end")
    async def go(self, ctx: Context) -> None: ...


class Between(Base[U], Generic[T, U], abstract=True): ...


class Listed(Base[dict[str, T]], abstract=True): ...


class Beside(Machine, abstract=True):  # type: ignore[type-arg]  # the test
    ...


@pytest.mark.req("M1")
def test_the_state_of_a_machine_over_a_generic_base_is_found() -> None:
    class Direct(Base[Order]): ...

    class Quoted(Base["Order"]): ...

    class Further(Between[str, Order]): ...

    class Filled(Listed[Order]): ...

    class Second(Beside, Base[Order]): ...

    for machine in (Direct, Quoted, Further, Second):
        assert machine.decode_result(b'{"amount": 3}') == Order(3), machine
    assert Filled.decode_result(b'{"a": {"amount": 3}}') == {"a": Order(3)}


@pytest.mark.req("M8")
def test_a_generic_base_without_its_brackets_is_told() -> None:
    def define() -> None:
        class Bad(Base): ...  # type: ignore[type-arg]  # the test

    assert "Bad: the type of its state is missing" in told(define)


class Colour(enum.StrEnum):
    RED = "red"


class Form(TypedDict):
    by: str


Amount = NewType("Amount", int)


def waiting(wait: Any, taken: Any) -> type[Machine[Any]]:
    async def go(self: Any, ctx: Any, value: Any) -> None: ...

    go.__annotations__["value"] = taken
    body = {"go": transition("start", "end", wait=wait)(go)}
    return types.new_class("Asks", (Machine[Order],), exec_body=lambda names: names.update(body))


@pytest.mark.req("M8", "M4")
@pytest.mark.parametrize(
    ("wait", "taken"),
    [
        (int, str),
        (dict, Order),
        (float, int),
        (Order | None, Order),
        (int | str, int),
        (list[int], list[str]),
        (Literal["yes", "no"], int),
        (Amount, str),
        (str, Colour),
        (Annotated[int, "cents"], str | None),
    ],
)
def test_a_trigger_that_brings_what_its_method_does_not_take_is_told(wait: Any, taken: Any) -> None:
    text = told(lambda: waiting(wait, taken))

    assert "has 1 problem" in text
    assert " go: wait=" in text
    assert "but it takes 'value' as " in text


@pytest.mark.req("M8", "M4")
@pytest.mark.parametrize(
    ("wait", "taken"),
    [
        (int, int),
        (int, float),
        (int, Any),
        (int, object),
        (int, T),
        (int, "Unknown"),
        (Order, Order | None),
        (int, Annotated[int | str, "id"]),
        (list[int], list[Any]),
        (list[int], Sequence[int]),
        (Sequence[int], list[int]),
        (tuple[int, ...], tuple[int, ...]),
        (dict[str, Any], Form),
        (Form, Mapping[str, Any]),
        (Literal["yes"], str),
        (Amount, int),
        (Colour, str),
    ],
)
def test_a_method_may_take_more_than_its_trigger_brings(wait: Any, taken: Any) -> None:
    assert waiting(wait, taken).definition.name == "Asks"


@pytest.mark.req("M8", "M4")
def test_a_wait_that_is_not_the_type_of_its_parameter_is_told_with_both() -> None:
    def define() -> None:
        class Bad(Machine[Order]):
            @transition("start", "end", wait=int)
            async def go(self, ctx: Context, amount: str) -> None: ...

    assert " go: wait=int, but it takes 'amount' as str; give both the same type" in told(define)


def misspelt() -> None:
    transition("start", "end", timeot="1m")  # type: ignore[call-arg]  # the test


def unknown() -> None:
    transition("start", "end", signals=5)  # type: ignore[call-arg]  # the test


def bare() -> None:
    transition(go)  # type: ignore[call-arg, arg-type]  # the test


def too_many() -> None:
    transition("start", "end", True)  # type: ignore[call-arg]  # the test


def step_option() -> None:
    step(retries=3)  # type: ignore[call-overload]  # the test


def workflow_option() -> None:
    workflow(versio="2")  # type: ignore[call-overload]  # the test


@pytest.mark.req("M8", "F9")
@pytest.mark.parametrize(
    ("define", "text", "hint"),
    [
        (misspelt, "@transition: timeot= is not an option", "did you mean 'timeout'?"),
        (
            unknown,
            "@transition: signals= is not an option",
            "use one of: on_error, on_timeout, priority, retry",
        ),
        (bare, "@transition: missing a required argument: 'target'", '@transition("review", "paid")'),
        (too_many, "@transition: too many positional arguments", '@transition("review", "paid")'),
        (step_option, "@step: retries= is not an option", "did you mean 'retry'?"),
        (workflow_option, "@workflow: versio= is not an option", "did you mean 'version'?"),
    ],
)
def test_an_option_that_a_decorator_does_not_have_is_told_with_its_place(
    define: Callable[[], None], text: str, hint: str
) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        define()

    line = define.__code__.co_firstlineno + 1
    assert caught.value.message == f"test_declarations.py:{line} {text}"
    assert hint in caught.value.hint


@pytest.mark.req("M8")
def test_keywords_that_nobody_gives_are_told() -> None:
    def holds(state: Order, *, limit: int) -> bool:
        return state.amount < limit

    def define() -> None:
        class Bad(Machine[Order]):
            def __init__(self, *, limit: int) -> None: ...

            @transition("start", "end", when=holds)
            async def go(self, ctx: Context) -> None: ...

    text = told(define)

    assert "has 2 problems" in text
    assert " go: when= must take (state) or (state, input)" in text
    assert " Bad: its __init__ must work without arguments" in text


@pytest.mark.req("M2")
async def test_a_guard_that_gives_a_coroutine_holds_the_machine() -> None:
    async def refuses(state: Order) -> bool:
        return False

    def asks(state: Order) -> Any:
        return refuses(state)

    class Asks(Machine[Order]):
        @transition("start", "end", when=asks)
        async def go(self, ctx: Context) -> None: ...

    with pytest.raises(RunFailed, match="when= of go raised TypeError: it returned a coroutine") as failed:
        await run_stateless(Asks)

    assert failed.value.cause_code == "NO_WAY_OUT"
