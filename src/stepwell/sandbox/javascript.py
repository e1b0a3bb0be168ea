"""JavaScript: code of a node in quickjs, in processes of its own."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from stepwell.sandbox.errors import CodeError
from stepwell.sandbox.jail import jailed
from stepwell.sandbox.pool import SandboxPool

MEMORY_BYTES = 64 * 1024 * 1024
_CHILD = Path(__file__).with_name("javascript_child.py")
_PLACE = re.compile(r"<(?:input|evalScript|anonymous)>:(\d+)(?::(\d+))?")


@dataclass(frozen=True, slots=True)
class CodeResult:
    output: Any
    logged: tuple[str, ...] = ()  # what the code printed, cut at 64 kB


class JavaScript:
    def __init__(self, *, processes: int = 2) -> None:
        if find_spec("quickjs") is None:
            raise CodeError(
                "SANDBOX_UNAVAILABLE",
                "this worker cannot run JavaScript",
                hint='install it: pip install "stepwell[code]"',
            )
        self._pool = SandboxPool(jailed([sys.executable, "-I", str(_CHILD)]), size=processes)

    async def run(self, code: str, ctx: Any, *, timeout: float, output_max: int, key: str = "") -> CodeResult:
        """Run the body of an async function with `ctx`; what it returns is the output."""
        request = {
            "code": code,
            "ctx": msgspec.json.encode(ctx).decode(),
            "timeout": timeout,
            "memory": MEMORY_BYTES,
            "output_max": output_max,
        }
        answer = await self._pool.run(request, timeout)
        logged = tuple(answer.get("logged", ()))
        if "output" in answer:
            try:
                return CodeResult(msgspec.json.decode(answer["output"]), logged)
            except msgspec.DecodeError:
                raise CodeError(
                    "OUTPUT_NOT_JSON", "the output has half a character (a lone surrogate)"
                ) from None
        raise _error(answer)

    async def close(self) -> None:
        await self._pool.close()


def _error(answer: dict[str, Any]) -> CodeError:
    before = int(answer.get("lines_before", 0))
    if "problem" in answer:
        return CodeError(
            "OUTPUT_NOT_JSON", str(answer["problem"]), hint="return JSON: objects, lists, text, numbers"
        )
    if "large" in answer:
        return CodeError("OUTPUT_TOO_LARGE", f"the output is {answer['large']:,} characters")
    if "error" in answer:
        error = answer["error"]
        place = _place(error["stack"], before)
        code = error["code"] if error["code"] == "CODE_NO_NETWORK" else "CODE_ERROR"
        if error["name"] == "InternalError" and "out of memory" in error["message"]:
            code = "CODE_MEMORY"
        elif error["name"] == "InternalError" and "interrupted" in error["message"]:
            code = "CODE_TIMEOUT"
        return CodeError(code, f"{error['name']}: {error['message']}"[:1000] + place)
    return CodeError(answer["code"], answer["message"][:1000] + _place(answer.get("stack", ""), before))


def _place(stack: str, before: int) -> str:
    """Return where in the user's code it happened, counted from its first line."""
    place = _PLACE.search(stack)
    if place is None or int(place[1]) <= before:
        return ""
    column = f", column {place[2]}" if place[2] else ""
    return f" (line {int(place[1]) - before}{column})"
