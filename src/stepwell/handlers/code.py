"""The step of `javascript` and `python` nodes: runs their code in a sandbox and logs what it prints."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from stepwell.authoring.graphs.errors import NodeConfigError, NodeError
from stepwell.authoring.graphs.nodes.code import JAVASCRIPT_STEP, PYTHON_STEP
from stepwell.authoring.graphs.nodes.steps import providing_step
from stepwell.domain.codec import PAYLOAD_BYTES_MAX
from stepwell.domain.program import StepContext
from stepwell.domain.steps import StepSpec
from stepwell.sandbox.code_sandbox import CodeSandbox, Language, is_installed
from stepwell.sandbox.errors import CodeError, printable
from stepwell.sandbox.probe import PROBE, SandboxProbe

_CONFIG = ("CODE_SYNTAX", "CODE_NO_NETWORK", "SANDBOX_UNAVAILABLE")
_LANGUAGES: dict[str, Language] = {JAVASCRIPT_STEP: "javascript", PYTHON_STEP: "python"}
_ALONE_SECONDS = 5.0  # seconds for which "no other workspace" is believed
_log = logging.getLogger("stepwell.code")


class Sandboxes:
    """The sandboxes of an engine, each started with its first code.

    `other_workspace` returns the name of another workspace of the database, or ''. If there are several
    workspaces, code runs only where a probe has shown that it can reach nothing: the sandbox of one
    workspace must not be a way into another.
    """

    def __init__(
        self,
        other_workspace: Callable[[], Awaitable[str]],
        *,
        probe: SandboxProbe = PROBE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._other_workspace = other_workspace
        self._probe = probe
        self._now = now
        self._alone_seconds = _ALONE_SECONDS
        self._alone_until = -1.0
        self._started: dict[Language, CodeSandbox] = {}
        self._probing: asyncio.Task[None] | None = None

    async def of(self, language: Language) -> CodeSandbox:
        """Return the sandbox of a language. CodeError if its code must not run here."""
        await self._check()
        if language not in self._started:
            self._started[language] = CodeSandbox(language)
        return self._started[language]

    def begin_probe(self) -> None:
        """Probe now if code of several workspaces may come. Code that comes earlier waits for the result."""
        if self._probing is None:
            self._probing = asyncio.get_running_loop().create_task(self._prepare())

    async def _prepare(self) -> None:
        if any(map(is_installed, _LANGUAGES.values())) and await self._other_workspace():
            reach = await self._probe.reach()
            if not reach.safe:
                _log.warning(
                    "code nodes are refused here: their sandbox would reach %s, and the database has several "
                    "workspaces; install bubblewrap and allow user namespaces",
                    ", ".join(reach.parts),
                )

    async def _check(self) -> None:
        if self._now() < self._alone_until or (await self._probe.reach()).safe:
            return
        other = await self._other_workspace()
        if not other:
            self._alone_until = self._now() + self._alone_seconds
            return
        raise CodeError(
            "SANDBOX_UNAVAILABLE",
            "this worker cannot keep the code of several workspaces apart: its sandbox would reach "
            + ", ".join((await self._probe.reach()).parts),
            hint="install bubblewrap and allow user namespaces; stepwell doctor tells whether it works",
        )

    async def close(self) -> None:
        probing, self._probing = self._probing, None
        if probing is not None:
            probing.cancel()
            await asyncio.wait({probing})  # the first code tries again
        started, self._started = self._started, {}
        for sandbox in started.values():
            await sandbox.close()


def code_steps(sandboxes: Sandboxes, workspace: Callable[[str], Awaitable[str]]) -> list[StepSpec]:
    """Return the steps that run the code of nodes in these sandboxes; `workspace` is that of a run."""
    return [_code_step(name, language, sandboxes, workspace) for name, language in _LANGUAGES.items()]


def _code_step(
    name: str, language: Language, sandboxes: Sandboxes, workspace: Callable[[str], Awaitable[str]]
) -> StepSpec:
    async def call(step: StepContext, config: dict[str, Any]) -> Any:
        try:
            sandbox = await sandboxes.of(language)
            result = await sandbox.run(
                config["code"],
                config["ctx"],
                timeout=config["seconds"],
                output_max=PAYLOAD_BYTES_MAX,
                key=step.key,
                owner=await workspace(step.run_id),
            )
        except CodeError as error:
            _write(error.logged)
            if error.code in _CONFIG:
                raise NodeConfigError(error.message, code=error.code, hint=error.hint) from None
            raise NodeError(error.code, error.message, hint=error.hint) from None
        _write(result.logged)
        return result.output

    return providing_step(name, call)


def _write(lines: Iterable[str]) -> None:
    """Write what the code printed to the log of its step."""
    for line in lines:
        _log.info("%s", printable(line))
