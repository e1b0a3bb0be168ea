"""The example of the three styles does what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, step, workflow
from stepwell.testing.local_provider import LocalProvider, LocalReply, LocalRequest
from tests.docs.test_machine_examples import said


@pytest.mark.slow
@pytest.mark.req("N22", "K18", "K13")
def test_a_graph_a_machine_and_a_function_call_one_another(tmp_path: Path) -> None:
    assert said("three_styles.py", tmp_path).splitlines() == [
        "charged 500, sent tea",
        "declined: the card limit is 100.00",
        "the shop is cancelled and the parcel is cancelled",
    ]


@pytest.mark.req("N25")
@pytest.mark.slow
def test_a_model_sorts_complaints_with_tools_and_a_person(tmp_path: Path) -> None:
    text = said("ai_triage.py", tmp_path)

    assert "Where is my order 8? low: It is on its way.\n  2 turns" in text
    assert "a person approves at 0/sort[1]/ask" in text
    assert "My order 7 never came! high: We are sorry: refunded 40." in text
    assert "0/sort[2]/refund         workflow   completed" in text


@step
async def find_order(id: int) -> dict[str, str]:
    return {"status": "lost"}


@workflow
async def refund(ctx: Context, input: dict[str, Any]) -> str:
    return "refunded"


def sorting(request: LocalRequest) -> LocalReply:
    if request.turn == 0:
        return LocalReply(calls=[("find_order", {"id": 7}), ("refund", {"id": 7})])
    return LocalReply(calls=[("answer", {"priority": "high" if "lost" in request.results[0] else "low"})])


@pytest.mark.req("N25")
@pytest.mark.slow
async def test_the_example_of_ai_asks_its_model() -> None:
    page = (Path(__file__).parents[2] / "docs" / "ai.md").read_text()
    block = next(
        block for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL) if '"type": "ai"' in block
    )
    nodes = [
        {"id": "start", "type": "start"},
        *json.loads(f"[{block}]"),
        {"id": "end", "type": "end", "data": {"output": {"triage": "{{ctx.triage}}"}}},
    ]
    edges = [{"source": "start", "target": "triage"}, {"source": "triage", "target": "end"}]
    async with LocalProvider(sorting) as local:
        options: dict[str, Any] = {
            "outbound": local.rules,
            "providers": {"main": local.config("anthropic")},
        }
        async with Engine(":memory:", workflows=[refund], steps=[find_order], **options) as engine:
            run = await engine.start_graph(
                {"nodes": nodes, "edges": edges}, {"shop": "tea", "mail": "Where?"}
            )

            output = (await run.result(60))["triage"]
            assert (output["answer"], output["turns"]) == ({"priority": "high"}, 2)
            assert local.requests[0].system == "You sort mail for tea."
