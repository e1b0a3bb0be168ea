"""Test workflows: an in-memory engine with virtual time, fake steps, and crashes at every commit.

    async with VirtualEngine(fulfil) as engine:
        engine.fake(charge, fails=[ConnectionError()], returns={"id": "r1"})
        run = await engine.start(fulfil, order)
        await engine.advance("2d")              # takes milliseconds
        await run.signal("approve", {"by": "ana"})
        assert await engine.outcome(run) == "r1"

`stepwell.testing.store_suite` is the conformance suite that every store must pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepwell.testing.clock import FakeClock
    from stepwell.testing.crashes import crash_everywhere
    from stepwell.testing.engine import VirtualEngine

__all__ = ["FakeClock", "VirtualEngine", "crash_everywhere"]

_WHERE = {"FakeClock": "clock", "VirtualEngine": "engine", "crash_everywhere": "crashes"}


def __getattr__(name: str) -> Any:
    """Load on first use: the pytest plugin imports this package in every project with Stepwell."""
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(f"stepwell.testing.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'stepwell.testing' has no attribute {name!r}")
