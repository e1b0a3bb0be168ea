"""The same random operations on every store: the same answers and the same state, step by step."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from stepwell.domain.ids import WorkerId
from tests.store.differential import Differential
from tests.store.operations import WORKERS
from tests.store.trio import Trio

EXAMPLES = 100
WALKS = 32

# What must have happened at least once, over all examples: else the test compares less than it says.
SEEN = {
    "start created",
    "start known",
    "start conflict",
    "start owned",
    "claim run",
    "claim remote",
    "claim event",
    "claim solo",
    "claim nothing",
    "claim blocked",
    "claim limited",
    "rate free",
    "rate full",
    "commit ok",
    "commit woken",
    "commit lost",
    "commit recognised",
    "commit park",
    "commit finish",
    "transact ok",
    "transact lost",
    "deliver delivered",
    "deliver duplicate",
    "deliver ended",
    "deliver unknown",
    "decide delivered",
    "decide decided",
    "decide duplicate",
    "cancel ended",
    "cancel requested",
    "cancel already",
    "cancel unknown",
    "retry retried",
    "retry not_failed",
    "retry unknown",
    "hold changed",
    "hold already",
    "release changed",
    "release already",
    "hold scope changed",
    "hold scope already",
    "release scope changed",
    "release scope already",
    "force_end ended",
    "force_end already",
    "found",
    "found by tag",
    "wait found",
    "emit new",
    "emit known",
    "fan_out delivered",
    "finish_remote ok",
    "finish_remote lost",
    "heartbeat owning",
    "heartbeat reaped",
    "reap workers",
    "reap solo",
    "deregister",
    "published",
    "others",
    "define",
    "restore created",
    "restore known",
    "remove removed",
    "remove live",
    "remove child",
    "remove unknown",
    "purge some",
}


def walk(machine: Differential, chance: random.Random, steps: int) -> None:
    """The machine's rules in a fixed random order, so that what happens does not depend on Hypothesis."""

    def pick() -> int:
        return chance.randrange(2**32)

    def worker() -> WorkerId:
        return chance.choice(WORKERS)

    rules: list[tuple[int, Callable[[], None]]] = [
        (3, lambda: machine.start(pick())),
        (1, lambda: machine.start_within(pick())),
        (2, lambda: machine.find(pick())),
        (1, lambda: machine.limit(pick())),
        (6, lambda: machine.work(pick(), worker())),
        (3, lambda: machine.claim(pick(), worker())),
        (4, lambda: machine.commit(pick())),
        (1, lambda: machine.transact(pick(), chance.random() < 0.3)),
        (3, lambda: machine.repeat(pick())),
        (4, lambda: machine.deliver(pick(), chance.random() < 0.5)),
        (4, lambda: machine.cancel_or_retry(pick())),
        (2, lambda: machine.archive(pick())),
        (5, lambda: machine.operate(pick())),
        (2, lambda: machine.emit(pick())),
        (2, lambda: machine.fan_out(pick())),
        (2, lambda: machine.finish_remote(pick())),
        (1, lambda: machine.let_the_others_die(pick(), worker())),
        (1, lambda: machine.reap(worker())),
        (1, lambda: machine.deregister(worker())),
        (1, lambda: machine.drain(worker())),
        (1, lambda: machine.look_around(pick())),
        (3, lambda: machine.clock_moves(chance.choice((0.5, 0.5, 2.0, 2.0, 6.0, -3.0)))),
    ]
    machine.begin(pick())
    for step in chance.choices([step for _, step in rules], [weight for weight, _ in rules], k=steps):
        step()
    machine.teardown()


@pytest.mark.slow
@pytest.mark.req("K1", "K2", "K3", "K6")
def test_all_stores_give_the_same_answers(tmp_path: Path, postgres_url: str) -> None:
    with Trio(tmp_path, postgres_url) as trio:

        class Machine(Differential):
            def __init__(self) -> None:
                super().__init__(trio, set())

        run_state_machine_as_test(
            Machine,
            settings=settings(
                derandomize=True,
                database=None,
                max_examples=EXAMPLES,
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


@pytest.mark.slow
@pytest.mark.req("K1", "K2", "K3", "K6")
def test_every_kind_of_answer_was_compared(tmp_path: Path, postgres_url: str) -> None:
    seen: set[str] = set()

    with Trio(tmp_path, postgres_url) as trio:
        for seed in range(WALKS):
            walk(Differential(trio, seen), random.Random(seed), steps=100)

    assert seen >= SEEN, f"never happened: {sorted(SEEN - seen)}"
