"""What `javascript` and `python` nodes do: run their code in a sandbox, and log what it prints."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from stepwell.authoring.graphs.errors import NodeConfigError, NodeError
from stepwell.authoring.graphs.nodes.code import JAVASCRIPT_STEP, PYTHON_STEP
from stepwell.authoring.graphs.nodes.steps import RESULTS
from stepwell.domain.codec import PAYLOAD_BYTES_MAX
from stepwell.domain.program import StepContext
from stepwell.domain.steps import StepSpec
from stepwell.sandbox.errors import CodeError
from stepwell.sandbox.javascript import CodeResult, JavaScript
from stepwell.sandbox.python import Python

_CONFIG = ("CODE_SYNTAX", "CODE_NO_NETWORK", "SANDBOX_UNAVAILABLE")
_log = logging.getLogger("stepwell.code")


class Sandbox(Protocol):
    async def run(
        self, code: str, ctx: Any, *, timeout: float, output_max: int, key: str = ""
    ) -> CodeResult: ...

    async def close(self) -> None: ...


class Sandboxes:
    """The sandboxes of an engine, each started when its first code comes."""

    def __init__(self) -> None:
        self._started: dict[str, Sandbox] = {}

    def of(self, step: str) -> Sandbox:
        if step not in self._started:
            self._started[step] = JavaScript() if step == JAVASCRIPT_STEP else Python()
        return self._started[step]

    async def close(self) -> None:
        started, self._started = self._started, {}
        for sandbox in started.values():
            await sandbox.close()


def code_steps(sandboxes: Sandboxes) -> list[StepSpec]:
    """Return the steps that run the code of nodes in these sandboxes."""
    return [_code_step(name, sandboxes) for name in (JAVASCRIPT_STEP, PYTHON_STEP)]


def _code_step(name: str, sandboxes: Sandboxes) -> StepSpec:
    async def call(step: StepContext, config: dict[str, Any]) -> Any:
        try:
            result = await sandboxes.of(name).run(
                config["code"],
                config["ctx"],
                timeout=config["seconds"],
                output_max=PAYLOAD_BYTES_MAX,
                key=step.key,
            )
        except CodeError as error:
            if error.code in _CONFIG:
                raise NodeConfigError(error.message, code=error.code, hint=error.hint) from None
            raise NodeError(error.code, error.message, hint=error.hint) from None
        for line in result.logged:
            _log.info("%s", line)
        return result.output

    return StepSpec(name=name, function=call, is_async=True, wants_context=True, returns=RESULTS)
