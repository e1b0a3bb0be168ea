"""Graphs in an engine: from JSON, files and Python; custom nodes, steps, children, test runs, traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from stepwell import (
    Context,
    GraphBuilder,
    InvalidGraph,
    NodeError,
    NodeResult,
    Retry,
    RunFailed,
    Status,
    graph,
    merger,
    node,
    step,
    workflow,
)
from tests.authoring.graphs.graphs import START, a, chart, traced
from tests.engines import Engines, crash, kinds, suspended


class Order(BaseModel):
    sku: str
    quantity: int = 1


@node("shop:order", config=Order)
async def place_order(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> Any:
    """Orders something."""
    return {"sku": config["sku"], "quantity": config["quantity"], "key": helpers.key.split("/", 1)[1]}


@node("shop:grade", handles=("out", "high"))
def grade(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> NodeResult:
    return NodeResult(ctx["input"]["total"], "high" if ctx["input"]["total"] > 100 else "out")


@step
async def double(number: int) -> int:
    return number * 2


@workflow
async def shout(ctx: Context, text: str) -> str:
    return text.upper()


@workflow
async def breaks(ctx: Context, text: str) -> str:
    raise ValueError(text)


def order_graph() -> dict[str, Any]:
    return chart(
        [
            START,
            a("O", "shop:order", sku="{{ctx.input.sku}}", quantity=2, outputVariable="order"),
            a("D", "call", step="double", args={"number": "{{ctx.order.quantity}}"}, outputVariable="twice"),
            a("W", "workflow", workflow="shout", input="{{ctx.input.sku}}", outputVariable="loud"),
            a(
                "Z",
                "end",
                output={"order": "{{ctx.order}}", "twice": "{{ctx.twice}}", "loud": "{{ctx.loud}}"},
            ),
        ],
        "S>O O>D D>W W>Z",
        name="order",
    )


@pytest.mark.req("G20", "N23", "N22", "G13")
async def test_a_graph_calls_custom_nodes_steps_and_workflows(engines: Engines) -> None:
    async with engines.new(shout, order_graph(), nodes=[place_order], steps=[double]) as engine:
        run = await engine.start("order", {"sku": "tea"})

        assert await run.result() == {
            "order": {"sku": "tea", "quantity": 2, "key": "0/O"},
            "twice": 4,
            "loud": "TEA",
        }


@pytest.mark.req("G20")
async def test_a_handler_chooses_its_handle(memory_engines: Engines) -> None:
    ways = [a("A", "set", values={"way": "high"}), a("B", "set", values={"way": "low"})]
    done = a("Z", "end", output={"way": "{{ctx.way}}"})
    body = chart([START, a("G", "shop:grade"), *ways, done], "S>G G-high>A G>B A>Z B>Z")
    async with memory_engines.new(body, nodes=[grade]) as engine:
        assert await (await engine.start("chart", {"total": 500})).result() == {"way": "high"}
        assert await (await engine.start("chart", {"total": 5})).result() == {"way": "low"}


@pytest.mark.req("G20")
async def test_an_unknown_type_is_refused_with_a_suggestion(memory_engines: Engines) -> None:
    body = chart([START, a("A", "shop:ordr"), a("Z", "end")], "S>A A>Z")

    with pytest.raises(InvalidGraph) as error:
        memory_engines.new(body, nodes=[place_order])

    assert error.value.codes == ["NODE_TYPE"]
    assert "shop:order" in error.value.problems[0].suggestion


@merger("cheapest")
def cheapest(base: dict[str, Any], branches: list[dict[str, Any]]) -> Any:
    offers = [branch["delta"]["offer"] for branch in branches if "offer" in branch["delta"]]
    return {"offer": min(offers), "asked": base["input"]["sku"]}


@merger("wrong")
def wrong(base: dict[str, Any], branches: list[dict[str, Any]]) -> Any:
    return {"x": {1, 2}} if branches[0]["source"] == "A" else 1 / 0


def offers(function: str, edges: str = "A>J B>J") -> dict[str, Any]:
    made = [a(id, "set", values={"offer": price}) for id, price in (("A", 7), ("B", 5))]
    join = a("J", "merge", strategy="custom", function=function)
    end = a("Z", "end", output={"offer": "{{ctx.offer}}", "asked": "{{ctx.asked}}"})
    return chart([START, a("F", "fork"), *made, join, end], f"S>F F>A F>B {edges} J>Z")


@pytest.mark.req("G7")
async def test_a_registered_function_merges_branches(engines: Engines) -> None:
    async with engines.new(offers("cheapest"), nodes=[cheapest]) as engine:
        run = await engine.start("chart", {"sku": "tea"})
        assert await run.result() == {"offer": 5, "asked": "tea"}


@pytest.mark.req("G7")
async def test_a_merge_function_that_errs_fails_the_join(memory_engines: Engines) -> None:
    with pytest.raises(InvalidGraph) as error:
        memory_engines.new(offers("cheapst"), nodes=[cheapest])
    assert error.value.codes == ["UNKNOWN_FUNCTION"]
    assert "cheapest" in error.value.problems[0].suggestion

    for edges, code in (("A>J B>J", "OUTPUT_NOT_JSON"), ("B>J A>J", "MERGE_FAILED")):
        async with memory_engines.new(shout, nodes=[wrong]) as engine:
            run = await engine.start_graph(offers("wrong", edges), {})
            with pytest.raises(RunFailed) as failed:
                await run.result()
            assert failed.value.cause_code == code


@pytest.mark.req("G12")
async def test_configuration_errors_are_told_apart_and_not_tried_again(memory_engines: Engines) -> None:
    body = chart(
        [
            START,
            a("O", "shop:order", sku="{{ctx.input.sku}}", quantity="{{ctx.input.many}}"),
            a("Z", "end"),
        ],
        "S>O O>Z",
    )
    async with memory_engines.new(body, nodes=[place_order]) as engine:
        run = await engine.start("chart", {"sku": "tea", "many": "lots"})
        with pytest.raises(RunFailed, match="integer"):
            await run.result()

        assert "step_failed" not in await kinds(run)
        entry = (await traced(run))["O"]
        assert entry.error is not None
        assert entry.error.code == "NODE_CONFIG"


@pytest.mark.req("N22")
async def test_the_failure_of_a_child_fails_the_node(engines: Engines) -> None:
    body = chart(
        [
            START,
            a("W", "workflow", workflow="breaks", input="no"),
            a("H", "set", values={"why": "{{ctx.error.message}}"}),
            a("Z", "end", output={"why": "{{ctx.why}}"}),
        ],
        "S>W W>Z W-error>H H>Z",
    )
    async with engines.new(breaks, body) as engine:
        assert await (await engine.start("chart", {})).result() == {"why": "no"}


@pytest.mark.req("N22")
async def test_a_function_runs_a_graph_as_its_child(engines: Engines) -> None:
    doubled = graph(
        chart(
            [START, a("T", "transform", expression="ctx.input.n * 2", outputVariable="r"),
             a("Z", "end", output={"r": "{{ctx.r}}"})],
            "S>T T>Z",
        )
    )  # fmt: skip

    @workflow
    async def parent(ctx: Context, n: int) -> int:
        result = await ctx.run(doubled, {"n": n})
        return int(result["r"])

    async with engines.new(parent, doubled) as engine:
        assert await (await engine.start(parent, 21)).result() == 42


@pytest.mark.req("G15")
async def test_a_test_run_of_an_unsaved_graph_leaves_no_definition(engines: Engines) -> None:
    id = "3f0c9a52-8a5d-4e0f-9b4e-0d6c1f2a7b11"
    body = chart(
        [START, a(id, "shop:order", sku="x", outputVariable="o", pinned={"sku": "pinned"}),
         a("Z", "end", output={"o": "{{ctx.o}}"})],
        "",
        name="unsaved",
    )  # fmt: skip
    body["edges"] = [{"source": "S", "target": id}, {"source": id, "target": "Z"}]
    async with engines.new(shout, nodes=[place_order]) as engine:
        run = await engine.start_graph(body, {}, test=True)

        assert await run.result() == {"o": {"sku": "pinned"}}
        assert (await run.info()).test
        assert await engine.store.read_definition("default", "unsaved") is None
        entry = (await traced(run))[id]
        assert entry.pinned


@pytest.mark.req("G15", "N15")
@pytest.mark.parametrize("pinned", ["denied", {"response": "denied", "comment": "no"}])
async def test_a_pinned_decision_says_which_way_to_go(memory_engines: Engines, pinned: Any) -> None:
    nodes = [a("Q", "approval", outputVariable="q", pinned=pinned), a("Y", "end", output={"y": 1})]
    end = a("Z", "end", output={"z": "{{ctx.q.response}}"})
    body = chart([START, *nodes, end], "S>Q Q-approved>Y Q-denied>Z")
    async with memory_engines.new() as engine:
        run = await engine.start_graph(body, {}, test=True)
        assert await run.result(timeout=60) == {"z": "denied"}


@pytest.mark.req("G15", "N8", "N9", "N20")
async def test_what_is_pinned_to_control_nodes_leads_on_as_their_own_results_do(
    memory_engines: Engines,
) -> None:
    nodes = [
        a("C", "condition", branches=[{"id": "big", "when": "ctx.input.missing > 1"}], pinned="big"),
        a("W", "switch", value="ctx.input.x", cases=[{"id": "one", "equals": 1}], pinned="default"),
        a("V", "set", values={"v": "{{ctx.input.missing}}"}, pinned={"v": 7}),
        a("Z", "end", output={"v": "{{ctx.v}}"}),
    ]
    body = chart([START, *nodes], "S>C C-big>W W-default>V V>Z")
    async with memory_engines.new() as engine:
        run = await engine.start_graph(body, {}, test=True)

        assert await run.result(timeout=60) == {"v": 7}


@pytest.mark.req("G15", "G12")
@pytest.mark.parametrize(
    ("type", "data"),
    [
        ("condition", {"branches": [{"id": "big", "when": "true"}]}),
        ("switch", {"value": "1", "cases": [{"id": "one", "equals": 1}]}),
        ("approval", {}),
    ],
)
async def test_what_is_pinned_and_names_no_way_fails_the_node(
    memory_engines: Engines, type: str, data: Any
) -> None:
    body = chart([START, a("Q", type, pinned={"x": 1}, **data), a("Z", "end")], "S>Q Q-error>Z")
    body["nodes"][2]["data"] = {"output": {"code": "{{ctx.error.code}}"}}
    async with memory_engines.new() as engine:
        run = await engine.start_graph(body, {}, test=True)

        assert await run.result(timeout=60) == {"code": "NODE_CONFIG"}


@pytest.mark.req("G15", "K22")
async def test_a_run_that_brought_its_graph_goes_on_with_another_worker(engines: Engines) -> None:
    body = chart([START, a("H", "approval"), a("Z", "end", output={"ok": True})], "S>H H-approved>Z")
    first = engines.new(shout)
    await first.open()
    run = await first.start_graph(body, {})
    await suspended(run)
    await crash(first)

    async with engines.new(shout) as engine:
        again = engine.handle(run.id)
        await again.decide("approved")
        assert await again.result() == {"ok": True}


@pytest.mark.req("G21")
async def test_graphs_come_from_files_and_python(memory_engines: Engines, tmp_path: Path) -> None:
    from stepwell.authoring.graphs.format.yaml import write_yaml

    g = GraphBuilder("built")
    check = g.condition("check", big="ctx.input.n > 10")
    g.start() >> check
    done = g.end("done", output={"size": "{{ctx.size}}"})
    check.on("big") >> g.node("set", "b", values={"size": "big"}) >> done
    check.on("else") >> g.node("set", "s", values={"size": "small"}) >> done
    as_json, as_yaml = tmp_path / "one.graph.json", tmp_path / "two.graph.yaml"
    as_json.write_text(json.dumps({**g.as_dict(), "name": "from-json"}))
    as_yaml.write_text(write_yaml({**g.as_dict(), "name": "from-yaml"}))

    async with memory_engines.new(g, str(as_json), as_yaml) as engine:
        for name in ("built", "from-json", "from-yaml"):
            assert await (await engine.start(name, {"n": 11})).result() == {"size": "big"}
            assert await (await engine.start(name, {"n": 1})).result() == {"size": "small"}


@pytest.mark.req("N1", "K8")
async def test_the_input_is_checked_against_the_start_nodes_schema(memory_engines: Engines) -> None:
    schema = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
    made = graph(chart([a("S", "start", inputSchema=schema), a("Z", "end")], "S>Z"))
    async with memory_engines.new(made) as engine:
        with pytest.raises(Exception, match="id"):
            await engine.start(made, {})
        with pytest.raises(Exception, match="id"):
            await engine.start("chart", {})
        assert await (await engine.start(made, {"id": "x"})).result() == {}


@pytest.mark.req("G16")
async def test_the_trace_tells_each_node(memory_engines: Engines) -> None:
    async with memory_engines.new(shout, order_graph(), nodes=[place_order], steps=[double]) as engine:
        run = await engine.start("order", {"sku": "tea"})
        await run.result()
        told = await traced(run)

    assert [entry.name for entry in told.values()] == ["S", "O", "D", "W", "Z"]
    assert [entry.order for entry in told.values()] == sorted(entry.order for entry in told.values())
    order = told["O"]
    assert order.predecessors == ["0/S"]
    assert order.input == {"input": {"sku": "tea"}}
    assert order.output["quantity"] == 2
    assert len(order.attempts) == 1
    assert order.worker
    assert order.queued_at is not None
    assert order.ended_at is not None
    assert order.ended_at >= order.queued_at


@pytest.mark.req("K11")
async def test_a_failed_graph_is_retried_where_it_failed(engines: Engines) -> None:
    tries: list[str] = []

    @node("flaky")
    async def flaky(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> str:
        tries.append(helpers.node)
        if helpers.node == "B" and tries.count("B") == 1:
            raise NodeError("E_NET", "no network", config=True)
        return str(helpers.node)

    done = a("Z", "end", output={"b": "{{ctx.b}}"})
    body = chart([START, a("A", "flaky"), a("B", "flaky", outputVariable="b"), done], "S>A A>B B>Z")
    async with engines.new(body, nodes=[flaky]) as engine:
        run = await engine.start("chart", {})
        with pytest.raises(RunFailed, match="no network"):
            await run.result()

        await run.retry()

        assert await run.result() == {"b": "B"}
        assert tries == ["A", "B", "B"]
        assert (await traced(run))["B"].status == "completed"


@pytest.mark.req("K11", "G15")
async def test_a_failed_run_that_brought_its_graph_is_retried_by_any_worker(engines: Engines) -> None:
    tries: list[str] = []

    @node("flaky")
    async def flaky(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> str:
        tries.append(helpers.node)
        if tries == ["A", "B"]:
            raise NodeError("E_NET", "no network", config=True)
        return str(helpers.node)

    done = a("Z", "end", output={"b": "{{ctx.b}}"})
    body = chart([START, a("A", "flaky"), a("B", "flaky", outputVariable="b"), done], "S>A A>B B>Z")
    async with engines.new(shout, nodes=[flaky]) as engine:
        run = await engine.start_graph(body, {}, test=True)
        with pytest.raises(RunFailed, match="no network"):
            await run.result()

        await run.retry()

        assert await run.result(timeout=60) == {"b": "B"}
        assert tries == ["A", "B", "B"]


@pytest.mark.req("K13")
async def test_cancelling_a_graph_cancels_its_child(engines: Engines) -> None:
    @workflow
    async def waits(ctx: Context, x: Any) -> None:
        await ctx.signal("never")

    body = chart([START, a("W", "workflow", workflow="waits"), a("Z", "end")], "S>W W>Z")
    async with engines.new(waits, body) as engine:
        run = await engine.start("chart", {})
        await suspended(run)
        (wait,) = (await run.state()).waits.values()
        child = engine.handle(wait.key)
        await suspended(child)

        await run.cancel()

        with pytest.raises(Exception, match="cancelled"):
            await child.result()
        assert await run.status() is Status.CANCELLED


@pytest.mark.req("G20")
@pytest.mark.parametrize(
    ("result", "code"),
    [
        (NodeResult(1, "nowhere"), "UNKNOWN_HANDLE"),
        (NodeResult(1, delay=-1), "NODE_CONFIG"),
        (NodeResult(1, delay="soon"), "NODE_CONFIG"),  # type: ignore[arg-type]  # as authors do
        (NodeError("half \ud800", "of a character \ud800"), "half \\ud800"),
        (NodeError(7, "a number"), "7"),  # type: ignore[arg-type]  # as authors do
    ],
    ids=["handle", "negative", "text", "surrogate", "number"],
)
async def test_a_handler_that_breaks_its_contract_fails_the_node(
    memory_engines: Engines, result: NodeResult | NodeError, code: str
) -> None:
    """A handle that was never declared leads nowhere; the run must not end as if all was well."""

    @node("odd", retry=Retry(1))
    async def odd(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> Any:
        if isinstance(result, NodeError):
            raise result
        return result

    handler = a("H", "set", values={"code": "{{ctx.error.code}}"})
    nodes = [START, a("O", "odd"), handler, a("Z", "end", output={"code": "{{default(ctx?.code, '')}}"})]
    async with memory_engines.new(chart(nodes, "S>O O>Z O-error>H H>Z"), nodes=[odd]) as engine:
        assert await (await engine.start("chart", {})).result(timeout=60) == {"code": code}


@pytest.mark.req("G12", "K9")
async def test_a_retry_container_does_not_repeat_what_trying_again_cannot_help(
    memory_engines: Engines,
) -> None:
    tries: list[str] = []

    @node("wrong")
    async def wrong(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> str:
        tries.append(helpers.key.partition("/0/")[2])
        raise NodeError("E", "the author's mistake", config=True)

    nodes = [START, a("R", "retry", delayMs=0), a("A", "wrong", "R"), a("Z", "end")]
    async with memory_engines.new(chart(nodes, "S>R R>Z"), nodes=[wrong]) as engine:
        run = await engine.start("chart", {})
        with pytest.raises(RunFailed):
            await run.result(timeout=60)

        assert tries == ["R#1/A"]
        assert [e.status for e in await run.trace() if e.name == "A"] == ["failed"]


@node("t:broken", retry=Retry(1))
async def broken(config: Any, ctx: Any, helpers: Any) -> None:
    raise KeyError("price")


@pytest.mark.req("G12", "G20")
async def test_the_error_of_a_handler_is_told_with_its_class(replayed_engines: Engines) -> None:
    g = GraphBuilder("breaking")
    g.start() >> g.node("t:broken", "look") >> g.end("done")
    async with replayed_engines.new(g, nodes=[broken]) as engine:
        run = await engine.start("breaking", {})

        with pytest.raises(RunFailed, match="failed: look: KeyError: 'price'"):
            await run.result(timeout=40)
