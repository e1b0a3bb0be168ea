"""Reruns from every node of every case: what is kept is asked for again, and the outcome is the same."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import pytest

from stepwell import Engine, NodeError, Retry, RunFailed, node
from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.authoring.graphs.history.rerun import output_edits
from stepwell.authoring.graphs.workflow import GraphWorkflow
from stepwell.client import RunHandle
from stepwell.domain import events as ev
from stepwell.errors import InvalidInput, RunError
from stepwell.store.open import open_store
from stepwell.testing.graphs.cases import Case, Script
from stepwell.testing.graphs.runner import _SETTINGS, _Play
from stepwell.testing.graphs.task import registry
from stepwell.testing.graphs.virtual import Patient, VirtualClock, run_virtually
from tests.authoring.graphs.graphs import START, a, chart, traced
from tests.authoring.graphs.test_cases import CASES
from tests.engines import Engines, all_events

ALONE = [case for case in CASES if not case.events and "invalid" not in case.expect]


class _Reruns(_Play):
    """Plays a case, and then again from each of its steps."""

    async def run(self, replay_always: bool) -> dict[str, Any]:
        clock = VirtualClock(self._loop)
        store: Any = Patient(open_store(":memory:", clock=clock), self._loop.bench)
        nodes: list[Any] = [registry(self._script).get("task")]
        settings = _SETTINGS
        found: dict[str, Any] = {}
        async with Engine(
            store, workflows=self._programs, nodes=nodes, settings=settings, clock=clock
        ) as engine:
            run: RunHandle[Any] = await engine.start(self._programs[0], self._case.input)
            first = await self._outcome(run)
            for path in first["steps"]:
                self._script.forget()
                found[path] = (first, await self._outcome(await engine.rerun_from_node(run, path)))
        return found

    async def _outcome(self, run: RunHandle[Any]) -> dict[str, Any]:
        async with asyncio.timeout(10 * 86_400):  # of virtual time
            try:
                await run.result()
            except RunError:
                pass
        told = await self._line(run)
        return {name: told[name] for name in ("status", "error", "output", "steps")}


@pytest.mark.req("K26", "G3")
@pytest.mark.parametrize("case", ALONE, ids=lambda case: case.id)
def test_a_rerun_from_any_node_comes_out_as_the_run_did(case: Case) -> None:
    script = Script(case)
    programs = [GraphWorkflow(PlanBuilder(registry(script)).build(case.graph), name="again")]

    found = run_virtually(lambda loop: _Reruns(case, programs, script, loop, "").run(False))

    for path, (first, again) in found.items():
        assert again == first, f"from {path}"


class Tells:
    """A node type whose executions are listed; those in `broken` fail."""

    def __init__(self, *broken: str) -> None:
        self.done: list[str] = []
        self.broken = set(broken)

    def node(self) -> Any:
        @node("tell", retry=Retry(1))
        async def tell(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> str:
            self.done.append(helpers.key.partition("/0/")[2])
            if helpers.node in self.broken:
                raise NodeError("E", "as told")
            return str(helpers.node)

        return tell


@pytest.mark.req("K26", "G8")
async def test_what_a_failed_join_led_to_is_done_again_with_the_branch_that_failed_it(
    engines: Engines,
) -> None:
    tells = Tells("A")
    nodes = [a("F", "fork"), a("A", "tell"), a("B", "tell"), a("J", "merge", errorStrategy="collect-all")]
    nodes += [a("H", "tell", outputVariable="h"), a("Z", "end", output={"h": "{{default(ctx?.h, 'none')}}"})]
    body = chart([START, *nodes], "S>F F>A F>B A>J B>J J-error>H H>Z J>Z")
    async with engines.new(body, nodes=[tells.node()]) as engine:
        run = await engine.start("chart", {})
        assert await run.result(timeout=60) == {"h": "H"}
        tells.done.clear()
        tells.broken.clear()

        again = await engine.rerun_from_node(run, "A")

        assert await again.result(timeout=60) == {"h": "none"}
        assert tells.done == ["A"]


@pytest.mark.req("K26", "K37")
async def test_a_node_is_done_again_also_when_a_node_without_an_answer_fails_elsewhere(
    engines: Engines,
) -> None:
    tells = Tells()
    fails = a("P", "set", values={"x": "{{ctx.missing}}"})
    nodes = [a("A", "tell"), a("D", "delay", ms=200), fails, a("Z", "end")]
    body = chart([START, *nodes], "S>A S>D D>P P>Z A>Z")
    async with engines.new(body, nodes=[tells.node()]) as engine:
        run = await engine.start("chart", {})
        with pytest.raises(RunFailed, match="missing"):
            await run.result(timeout=60)
        assert tells.done == ["A"]

        again = await engine.rerun_from_node(run, "A")

        with pytest.raises(RunFailed, match="missing"):
            await again.result(timeout=60)
        assert tells.done == ["A", "A"]
        assert (await traced(again))["A"].status == "completed"


@pytest.mark.req("K26", "N17")
async def test_a_rerun_from_a_later_attempt_keeps_those_before(memory_engines: Engines) -> None:
    tells = Tells("B")
    nodes = [
        a("R", "retry", maxAttempts=2, delayMs=0),
        a("A", "tell", "R"),
        a("B", "tell", "R"),
        a("Z", "end"),
    ]
    body = chart([START, *nodes], "S>R A>B R>Z")
    async with memory_engines.new(body, nodes=[tells.node()]) as engine:
        run = await engine.start("chart", {})
        with pytest.raises(RunFailed):
            await run.result(timeout=60)
        assert tells.done == ["R#1/A", "R#1/B", "R#2/A", "R#2/B"]
        tells.done.clear()
        tells.broken.clear()

        again = await engine.rerun_from_node(run, "R#2/B")

        await again.result(timeout=60)
        assert tells.done == ["R#2/B"]
        tells.done.clear()

        last = (await all_events(run))[-1].seq
        edited = await engine.fork(run, at=last, outputs={"R#2/B": 7})

        await edited.result(timeout=60)
        assert tells.done == []


@pytest.mark.req("K26", "K11")
async def test_what_a_person_sent_on_is_not_done_again(engines: Engines) -> None:
    tells = Tells("B")
    nodes = [a("A", "tell"), a("B", "tell"), a("C", "tell"), a("Z", "end")]
    body = chart([START, *nodes], "S>A A>B B>C C>Z")
    async with engines.new(body, nodes=[tells.node()]) as engine:
        run = await engine.start("chart", {})
        with pytest.raises(RunFailed):
            await run.result(timeout=60)
        tells.broken.clear()
        await run.retry()
        await run.result(timeout=60)
        tells.done.clear()

        again = await engine.rerun_from_node(run, "C")

        await again.result(timeout=60)
        assert tells.done == ["C"]


@pytest.mark.req("K26")
async def test_an_edit_of_what_is_not_reached_any_more_is_refused(memory_engines: Engines) -> None:
    tells = Tells("A")
    nodes = [a("A", "tell"), a("B", "tell"), a("H", "tell"), a("Z", "end")]
    body = chart([START, *nodes], "S>A A>B A-error>H H>Z B>Z")
    async with memory_engines.new(body, nodes=[tells.node()]) as engine:
        run = await engine.start("chart", {})
        await run.result(timeout=60)
        last = (await all_events(run))[-1].seq

        with pytest.raises(InvalidInput, match="H is no longer reached"):
            await engine.fork(run, at=last, outputs={"A": 1, "H": 2})


def calls_of(work: Callable[[], object]) -> int:
    """How many calls it makes: the work it is, however fast the machine."""
    made = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return made


@pytest.mark.req("K26")
async def test_a_rerun_from_a_node_takes_work_in_proportion_to_the_run(memory_engines: Engines) -> None:
    nodes = [
        a("F", "fork"),
        a("L", "loop", items="ctx.input", mode="parallel", concurrency=50),
        a("LF", "fork", "L"),
        a("A", "tell", "L"),
        a("B", "tell", "L"),
        a("J", "merge", "L", mode="any"),
        a("K", "loop", items="ctx.input"),
        a("C", "tell", "K"),
        a("M", "merge"),
        a("Z", "end"),
    ]
    body = chart([START, *nodes], "S>F F>L F>K LF>A LF>B A>J B>J L>M K>M M>Z")
    async with memory_engines.new(body, nodes=[Tells().node()]) as engine:

        async def work(count: int) -> int:
            run = await engine.start("chart", list(range(count)))
            await run.result(timeout=60)
            log, graph = [ev.read(row) async for row in run.log()], msgspec.json.encode(body)
            return calls_of(lambda: engine.graphs.rerun_edits(run.id, log, graph, "L[0]/A"))

        assert await work(240) < 4.5 * await work(60)


@pytest.mark.req("K26", "GR-P3")
async def test_edits_of_many_outputs_take_work_in_proportion_to_the_run(memory_engines: Engines) -> None:
    nodes = [a("L", "loop", items="ctx.input"), a("W", "wait", "L", event="go"), a("A", "tell", "L")]
    body = chart([START, *nodes, a("Z", "end")], "S>L W>A L>Z")
    async with memory_engines.new(body, nodes=[Tells().node()]) as engine:

        async def work(count: int) -> int:
            run = await engine.start("chart", list(range(count)))
            for number in range(count):
                await run.event("go", number)
            await run.result(timeout=60)
            log, graph = [ev.read(row) async for row in run.log()], msgspec.json.encode(body)
            outputs = {f"L[{number}]/A": "edited" for number in reversed(range(count))}
            told = engine.graphs.trace(run.id, log, graph)
            assert len(told.delivered) == count
            return calls_of(lambda: engine.graphs.trace(run.id, log, graph)) + calls_of(
                lambda: output_edits(told, log, engine.graphs.registry, outputs)
            )

        assert await work(160) < 4.5 * await work(40)
