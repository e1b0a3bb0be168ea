"""pytest plugin: the fixture `stepwell_engine`, and the mark of Stepwell's own test suites."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stepwell.testing.engine import VirtualEngine


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "req(*ids): the requirements of Stepwell that this test checks")


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine that uses our fixture, unless another plugin for async tests comes first."""
    names = pyfuncitem._fixtureinfo.argnames
    if "stepwell_engine" not in names or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture
def stepwell_engine() -> Callable[..., VirtualEngine]:
    """Return a factory of virtual engines: `async with stepwell_engine(fulfil) as engine: ...`."""

    def make(*workflows: Any, **options: Any) -> VirtualEngine:
        from stepwell.testing.engine import VirtualEngine

        return VirtualEngine(*workflows, **options)

    return make
