"""Sandboxes of tests, inside the jail and without it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stepwell.sandbox import jail as jails
from stepwell.sandbox.code_sandbox import CodeSandbox, Language
from stepwell.sandbox.errors import CodeError
from tools import debian

LANGUAGES: tuple[Language, ...] = ("javascript", "python")
SECONDS = 1.0


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """Install the program of the jail, where it can be had."""
    if not jails.jail():
        debian.install("bubblewrap")
        jails.jail.cache_clear()


@pytest.fixture(params=["jailed", "bare"])
def jailing(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, bubblewrap: None
) -> Iterator[str]:
    if request.param == "bare":
        monkeypatch.setenv("STEPWELL_SANDBOX_JAIL", "off")
    jails.jail.cache_clear()
    if request.param == "jailed" and not jails.jail():
        pytest.skip("bubblewrap is not installed, or may not be used here")
    yield request.param
    monkeypatch.undo()
    jails.jail.cache_clear()


@pytest.fixture
def jail(bubblewrap: None) -> None:
    jails.jail.cache_clear()
    if not jails.jail():
        pytest.skip("bubblewrap is not installed, or may not be used here")


@asynccontextmanager
async def opened(language: Language) -> AsyncIterator[CodeSandbox]:
    sandbox = CodeSandbox(language, processes=2)
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def outcome(sandbox: CodeSandbox, code: str, ctx: Any = None, **options: Any) -> Any:
    """The output, or the code of the error."""
    options = {"timeout": SECONDS, "output_max": 100_000, "key": "run/step", **options}
    try:
        return (await sandbox.run(code, {"n": 1} if ctx is None else ctx, **options)).output
    except CodeError as error:
        return error.code
