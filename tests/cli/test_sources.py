"""What `stepwell worker` and `stepwell check` find in a file: every style, its steps and its nodes."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from stepwell import GraphBuilder
from stepwell.app import Engine
from stepwell.cli import main
from stepwell.cli.source import collect
from stepwell.domain.compensation import reference

SHOP = """
from stepwell import Context, GraphBuilder, Machine, graph, merger, node, source, step, transition, workflow

@step
async def price(sku: str) -> int:
    return len(sku)

slow_price = price.options(timeout="1h")

@workflow
async def greet(ctx: Context, name: str) -> str:
    return f"hello {name}"

class Open(Machine[dict]):
    ends = {"done"}

    @transition("start", "done")
    async def finish(self, ctx: Context) -> None: ...

@node("shop:tax", timeout="20s")
async def tax(config, ctx, helpers):
    return config["amount"] / 5

@source(every="1s")
async def inbox(config, cursor):
    return []

@merger("either")
def either(before, branches):
    return before

built = GraphBuilder("built")
(
    built.start()
    >> built.node("shop:tax", "tax", amount="{{ctx.input.amount}}", outputVariable="tax")
    >> built.node("call", "price", step="price", args={"sku": "tea"}, outputVariable="price")
    >> built.node("workflow", "greet", workflow="greet", input="ana", outputVariable="greeting")
    >> built.end("end", output={"said": "{{ctx.greeting}}", "sum": "{{ctx.tax + double(ctx.price)}}"})
)
made = graph({"name": "made", "nodes": [{"id": "a", "type": "start"}], "edges": []})
"""


@pytest.mark.req("C1", "G20", "G21")
async def test_a_file_gives_all_its_workflows_steps_and_nodes(tmp_path: Path) -> None:
    source = tmp_path / "shop_of_three_styles.py"
    source.write_text(SHOP)

    found = collect(str(source))

    assert {w.definition.name for w in found.workflows} == {"greet", "Open", "built", "made"}
    assert [step.spec.name for step in found.steps] == ["price"]
    assert len(found.nodes) == 2
    assert [each.name for each in found.sources] == ["inbox"]
    async with Engine(":memory:", workflows=found.workflows, steps=found.steps, nodes=found.nodes) as engine:
        run = await engine.start("built", {"amount": 10})
        assert await run.result(timeout=30) == {"said": "hello ana", "sum": 5.0}


BESIDE = """
from stepwell import Context, GraphBuilder, graph, workflow

class Anything:  # as sqlalchemy.func
    def __getattr__(self, name):
        return self

class OutsideOfARequest:  # as flask.request
    def __getattr__(self, name):
        raise RuntimeError("working outside of a request")

class GraphWorkflow:  # of somebody else
    pass

func, request, theirs = Anything(), OutsideOfARequest(), GraphWorkflow()

@workflow
async def greet(ctx: Context, name: str) -> str:
    return f"hello {name}"

built = GraphBuilder("built")
built.start() >> built.end("end")
flow = graph(built)
"""


@pytest.mark.req("C1", "G20")
def test_a_file_may_have_other_things_and_a_graph_beside_its_builder(tmp_path: Path) -> None:
    source = tmp_path / "shop_beside_other_things.py"
    source.write_text(BESIDE)

    found = collect(str(source))

    assert sorted(w.definition.name for w in found.workflows) == ["built", "greet"]
    assert (found.steps, found.nodes) == ([], [])


@pytest.mark.req("C1", "G20", "G21")
def test_a_graphs_own_file_is_a_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    g = GraphBuilder("of a file")
    g.start() >> g.end("done")
    file = tmp_path / "order.graph.json"
    file.write_text(json.dumps(g.as_dict()))

    assert [w.definition.name for w in collect(str(file)).workflows] == ["of a file"]
    assert main(["worker", str(tmp_path / "none.json"), "--database", str(tmp_path / "app.db")]) == 2
    assert "name the .json or .yaml file" in capsys.readouterr().err


@pytest.mark.req("C1", "K29")
def test_no_database_is_made_for_a_file_that_is_not_there(tmp_path: Path) -> None:
    database = tmp_path / "new.db"

    assert main(["runs", "import", str(tmp_path / "none.json"), "--database", str(database)]) == 2

    assert not database.exists()


@pytest.mark.req("C1")
def test_a_database_that_does_not_answer_has_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "retry", "x", "--database", "postgresql://nobody@127.0.0.1:1/none"]) == 6

    assert "STORE_UNAVAILABLE" in capsys.readouterr().err


@pytest.mark.req("K27", "C1")
def test_what_a_script_began_its_module_can_undo(tmp_path: Path) -> None:
    """Else another `refund` that the worker knows would leave nobody sure which one the log means."""
    script = tmp_path / "flows_of_a_script.py"
    script.write_text(
        "from stepwell import step\n"
        "def refund(paid: int) -> None: ...\n"
        "@step(compensate=refund)\n"
        "def charge() -> int: return 1"
    )

    ran = runpy.run_path(str(script), run_name="__main__")

    assert reference(ran["charge"].spec.compensate) == "flows_of_a_script:refund"
