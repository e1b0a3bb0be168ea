"""Nodes beside what they use without an engine, and hostile code beside other runs: measured, not assumed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stepwell.sandbox.code_sandbox import Language
from tools import http_calls, sandbox
from tools.node_rates import BAR

TRIES = 3  # another process may take the machine for a whole measurement


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.req("N6", "N7")
@pytest.mark.parametrize("language", ["javascript", "python"])
def test_code_nodes_reach_half_the_rate_of_their_bare_sandbox(tmp_path: Path, language: Language) -> None:
    ratios = []
    for number in range(TRIES):
        ratios.append(asyncio.run(sandbox.rates(language, str(tmp_path / f"{number}.db"), turns=3)).ratio)
        if ratios[-1] >= BAR:
            break

    assert max(ratios) >= BAR, ratios


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.req("N18")
def test_http_nodes_make_half_as_many_requests_as_the_bare_client(tmp_path: Path) -> None:
    ratios = []
    with http_calls.serving() as port:
        for number in range(TRIES):
            database = str(tmp_path / f"{number}.db")
            ratios.append(asyncio.run(http_calls.rates(database, port, turns=3)).ratio)
            if ratios[-1] >= BAR:
                break

    assert max(ratios) >= BAR, ratios


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.req("X2", "BI-C02", "BI-C03", "BI-C11", "BI-C19", "BI-C22")
def test_hostile_code_neither_delays_a_heartbeat_nor_fails_another_run(tmp_path: Path) -> None:
    seen = asyncio.run(sandbox.beside(str(tmp_path / "beside.db"), seconds=4.0, hostile=True))

    assert seen.runs >= 10
    assert seen.with_code >= 1
    assert seen.failed == 0
    assert seen.latest_beat < sandbox.LATE_SECONDS
