"""Wrong requests: a code and a hint each, and nothing is written or lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import Context, Engine, Settings, SyncContext, workflow
from stepwell.errors import (
    InvalidDefinition,
    InvalidInput,
    InvalidRequest,
    KeyConflict,
    NotSerialisable,
    RunEnded,
    SettingsInvalid,
    StepwellError,
    UnknownWorkflow,
)
from tests.engines import Engines


@dataclass
class Order:
    id: int
    names: list[str]


@workflow
async def fulfil(ctx: Context, order: Order) -> int:
    return order.id


@workflow
async def nothing(ctx: Context) -> str:
    return "nothing"


def told(error: StepwellError, code: str) -> None:
    assert error.code == code
    assert error.hint
    assert code in str(error)
    assert error.hint in str(error)


@pytest.mark.req("K8", "F9")
@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ("text", "(the value itself)"),
        (None, "(the value itself)"),
        (Order("x", []), "id"),  # type: ignore[arg-type]  # that is the test
        (Order(1, ["a", 2]), "names[1]"),  # type: ignore[list-item]  # that is the test
        ({"id": 1}, "names"),
    ],
)
async def test_wrong_argument_type_at_start(engines: Engines, wrong: Any, field: str) -> None:
    async with engines.new(fulfil) as engine:
        with pytest.raises(InvalidInput) as caught:
            await engine.start(fulfil, wrong)

        told(caught.value, "INVALID_INPUT")
        assert field in str(caught.value)
        assert caught.value.context["workflow"] == "fulfil"
        assert list(await engine.runs()) == []


@pytest.mark.req("K8")
async def test_input_for_a_workflow_that_takes_none(memory_engines: Engines) -> None:
    async with memory_engines.new(nothing) as engine:
        with pytest.raises(InvalidInput):
            await engine.start(nothing, 5)  # type: ignore[misc]  # that is the test


@pytest.mark.req("F9")
@pytest.mark.parametrize("verb", ["signal", "emit", "start"])
async def test_unserialisable_value_names_its_field(memory_engines: Engines, verb: str) -> None:
    @workflow
    async def open_minded(ctx: Context, anything: Any) -> str:
        return str(await ctx.signal("go"))

    async with memory_engines.new(open_minded) as engine:
        run = await engine.start(open_minded, 1)
        bad = {"a": [object()]}
        doors: dict[str, Callable[[], Awaitable[Any]]] = {
            "signal": lambda: run.signal("go", bad),
            "emit": lambda: engine.emit("x", bad),
            "start": lambda: engine.start(open_minded, bad),
        }

        with pytest.raises(NotSerialisable) as caught:
            await doors[verb]()

        told(caught.value, "NOT_SERIALISABLE")
        assert "a[0]" in str(caught.value)


@pytest.mark.req("F9")
@pytest.mark.parametrize("annotation", [dict, dict[str, Any], dict[str, list[Any]]])
@pytest.mark.parametrize(
    ("bad", "field"), [({"a": [{1, 2}]}, "a[0]"), ({"a": [(1, 2)]}, "a[0]"), ({"a": [{1: 2}]}, "a[0]")]
)
async def test_parts_without_annotation_do_not_change_silently(
    memory_engines: Engines, annotation: Any, bad: Any, field: str
) -> None:
    async def take(ctx: Context, anything: Any) -> int:
        return 1

    take.__annotations__["anything"] = annotation
    flow = workflow(take)
    async with memory_engines.new(flow) as engine:
        assert await engine.run(flow, {"a": [{"b": None}]}) == 1
        with pytest.raises(NotSerialisable) as caught:
            await engine.start(flow, bad)

        assert caught.value.context["field"] == field
        with pytest.raises(InvalidInput):
            await engine.start(flow, [bad])


@pytest.mark.req("K8")
async def test_a_large_wrong_value_is_not_quoted_whole(memory_engines: Engines) -> None:
    async with memory_engines.new(fulfil) as engine:
        with pytest.raises(InvalidInput) as caught:
            await engine.start("fulfil", {"id": "x" * 100_000, "names": []})

        assert caught.value.context["field"] == "id"
        assert len(str(caught.value)) < 1_000
        assert "integer" in str(caught.value)


@pytest.mark.req("K8")
async def test_unknown_workflow_is_told_with_a_suggestion(engines: Engines) -> None:
    async with engines.new(fulfil) as engine:
        with pytest.raises(UnknownWorkflow) as caught:
            await engine.start("fulfill", {})
        told(caught.value, "UNKNOWN_WORKFLOW")
        assert "'fulfil'" in caught.value.hint
        with pytest.raises(UnknownWorkflow, match="version '9'"):
            await engine.start("fulfil", {}, version="9")


@pytest.mark.req("K21")
async def test_same_key_with_other_input(engines: Engines) -> None:
    async with engines.new(fulfil) as engine:
        run = await engine.start(fulfil, Order(1, []), key="k")
        with pytest.raises(KeyConflict) as caught:
            await engine.start(fulfil, Order(2, []), key="k")

        told(caught.value, "KEY_CONFLICT")
        assert run.id in str(caught.value)
        assert await run.result() == 1


@pytest.mark.req("K15")
async def test_signal_or_decision_to_a_finished_run(engines: Engines) -> None:
    async with engines.new(nothing) as engine:
        run = await engine.start(nothing)
        await run.result()
        for talk in (run.signal("x", 1), run.decide("x")):
            with pytest.raises(RunEnded) as caught:
                await talk
            assert caught.value.code == "RUN_ENDED"
            assert run.id in str(caught.value)
        assert await run.result() == "nothing"


@pytest.mark.req("K6")
@pytest.mark.parametrize("text", ["nul\x00", "x" * 501, "line\nbreak", "\ud800"])
async def test_keys_and_names_that_no_database_keeps(engines: Engines, text: str) -> None:
    async with engines.new(nothing) as engine:
        run = await engine.start(nothing, delay="1h")
        for ask in (
            lambda: engine.start(nothing, key=text),
            lambda: run.signal(text, 1),
            lambda: run.signal("x", 1, id=text),
            lambda: engine.emit(text),
            lambda: engine.emit("x", key=text),
        ):
            with pytest.raises(InvalidInput) as caught:
                await ask()
            assert caught.value.hint
        assert len(await engine.runs()) == 1


@pytest.mark.req("K1")
async def test_text_with_nul_inside_values_is_kept(engines: Engines) -> None:
    @workflow
    async def echo(ctx: Context, text: str) -> str:
        return await ctx.step(lambda: text + "\x00\u2028")

    async with engines.new(echo) as engine:
        assert await (await engine.start(echo, "a\x00b")).result() == "a\x00b\x00\u2028"


@pytest.mark.req("K11")
async def test_error_text_with_nul_is_kept(engines: Engines) -> None:
    def bad() -> None:
        raise ValueError("a\x00b \ud800")

    @workflow
    async def fails(ctx: Context) -> None:
        await ctx.step(bad)

    async with engines.new(fails) as engine:
        with pytest.raises(StepwellError, match=r"a.*b"):
            await (await engine.start(fails)).result(15)


@pytest.mark.req("F1")
def test_wrong_definitions_are_refused_when_they_are_made() -> None:
    with pytest.raises(InvalidDefinition) as caught:
        Engine(":memory:", workflows=[print])  # type: ignore[list-item]  # that is the test
    told(caught.value, "INVALID_DEFINITION")

    @workflow(name="nothing")
    async def twin(ctx: Context) -> None: ...

    with pytest.raises(InvalidDefinition, match="two workflows"):
        Engine(":memory:", workflows=[nothing, twin])
    with pytest.raises(InvalidDefinition):
        workflow(lambda: None)  # type: ignore[misc, arg-type]  # takes no ctx


@pytest.mark.req("K31")
@pytest.mark.parametrize(
    "wrong", [{"slots": 0}, {"lease_seconds": -1}, {"lease_seconds": 5, "heartbeat_seconds": 4}]
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        Settings(**wrong)
    told(caught.value, "SETTINGS_INVALID")


def test_setting_from_the_environment_that_is_no_number_is_named() -> None:
    with pytest.raises(SettingsInvalid, match="STEPWELL_SLOTS"):
        Settings.from_env({"STEPWELL_SLOTS": "many"})


def test_every_error_has_a_code_of_its_own() -> None:
    def tree(kind: type[StepwellError]) -> list[type[StepwellError]]:
        return [kind, *(leaf for sub in kind.__subclasses__() for leaf in tree(sub))]

    kinds = [kind for kind in tree(StepwellError) if kind.__module__ == "stepwell.errors"]
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert issubclass(InvalidInput, InvalidRequest)
    assert SyncContext is not None
