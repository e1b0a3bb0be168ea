"""Ledger: the outside world. Every step records its effect here, whatever happens to its result."""

from __future__ import annotations

import asyncio
import random

from stepwell.domain.program import StepContext
from stepwell.testing.clock import BEGIN
from tests.simulation.checker.evidence import Execution
from tests.simulation.simulator.loop import SimLoop


class Broken(Exception):
    """A step fails because its script says so."""


class Ledger:
    def __init__(self, loop: SimLoop, rng: random.Random) -> None:
        self.rows: list[Execution] = []
        self._loop = loop
        self._rng = rng

    async def perform(self, step: StepContext, tag: str, basis: str, fails: int) -> str:
        """Record the effect; its result names this execution, so that a repeat can be recognised."""
        row = self._begin(step, basis)
        token = f"{tag}@{len(self.rows)}"
        await asyncio.sleep(self._rng.choice((0.0, 0.02, 0.1, 0.5)) * self._rng.random())
        row.ended = BEGIN + self._loop.time()
        if step.attempt <= fails:
            raise Broken(f"attempt {step.attempt} of {tag}")
        return token

    def _begin(self, step: StepContext, basis: str) -> Execution:
        row = Execution(
            run=step.run_id,
            path=step.path,
            attempt=step.attempt,
            lease=step.lease,
            began=BEGIN + self._loop.time(),
            worker=self._loop.current.name,
            basis=basis,
        )
        self.rows.append(row)
        return row


class LedgerLoop(SimLoop):
    """The loop on which steps run; through it they reach the ledger."""

    ledger: Ledger


def ledger() -> Ledger:
    stage = asyncio.get_running_loop()
    assert isinstance(stage, LedgerLoop), "these steps belong to the simulator"
    return stage.ledger
