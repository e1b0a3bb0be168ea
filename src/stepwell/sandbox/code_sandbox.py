"""CodeSandbox: the code of nodes, run by the interpreter of its language in processes of their own."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec

from stepwell.sandbox.errors import CodeError
from stepwell.sandbox.jail import jailed
from stepwell.sandbox.pool import NO_PROCESSES, SandboxPool

Language = Literal["javascript", "python"]
MEMORY_BYTES = 64 * 1024 * 1024
_MODULES: Mapping[Language, str] = {"javascript": "quickjs", "python": "pydantic_monty"}
_LOGGED_MAX = 65_536  # characters
_CODES = ("CODE_ERROR", "CODE_MEMORY", "CODE_PROCESS_LIMIT", "CODE_SYNTAX", "CODE_TIMEOUT")  # of a process
_HINTS = {"CODE_NO_NETWORK": "use an http node", "CODE_PROCESS_LIMIT": NO_PROCESSES}
_PLACE = re.compile(r"<(?:input|evalScript|anonymous)>:(\d+)(?::(\d+))?")


@dataclass(frozen=True, slots=True)
class CodeResult:
    output: Any
    logged: tuple[str, ...] = ()  # what the code printed, cut at 64 kB


class ThrownError(TypedDict):
    """An error as JavaScript has it."""

    name: str
    message: str
    stack: str
    code: str


class SandboxAnswer(TypedDict, total=False):
    """What a process says. The code in it can say the same, so all of it is the word of a stranger."""

    output: str  # JSON
    problem: str  # why the output is not JSON
    large: int  # the length of an output that is too long
    error: ThrownError
    code: str
    message: str
    line: int
    column: int
    stack: str
    lines_before: int
    logged: list[str]


class CodePlace(NamedTuple):
    """Where in the code of a node something is wrong; both count from 1, 0 is unknown."""

    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return ""
        return f" (line {self.line}{f', column {self.column}' if self.column > 0 else ''})"


class CodeSandbox:
    def __init__(self, language: Language, *, processes: int = 2) -> None:
        self._pool = SandboxPool(command(language), size=processes)

    async def run(
        self, code: str, ctx: Any, *, timeout: float, output_max: int, key: str = "", owner: str = ""
    ) -> CodeResult:
        """Run the body of a function of `ctx`; what it returns is the output.

        Python sees the same random numbers for the same `key`. Processes are not shared between owners.
        """
        request = {
            "code": code,
            "ctx": msgspec.json.encode(ctx).decode(),
            "timeout": timeout,
            "memory": MEMORY_BYTES,
            "output_max": output_max,
            "key": key,
        }
        answer = _checked(await self._pool.run(request, timeout, owner=owner), output_max)
        logged = _cut(answer.get("logged", ()))
        if "output" not in answer:
            failed = code_error(answer)
            failed.logged = logged
            raise failed
        try:
            return CodeResult(msgspec.json.decode(answer["output"]), logged)
        except msgspec.DecodeError:
            raise CodeError("OUTPUT_NOT_JSON", "the output has half a character (a lone surrogate)") from None
        except RecursionError:
            raise CodeError("OUTPUT_NOT_JSON", "the output is nested too deeply", hint="flatten it") from None

    async def close(self) -> None:
        await self._pool.close()


def is_installed(language: Language) -> bool:
    return find_spec(_MODULES[language]) is not None


def command(language: Language) -> list[str]:
    """Return the command of a process that runs code of this language, in its jail."""
    if not is_installed(language):
        name = {"javascript": "JavaScript", "python": "sandboxed Python"}[language]
        raise CodeError(
            "SANDBOX_UNAVAILABLE",
            f"this worker cannot run {name}",
            hint='install it: pip install "stepwell[code]"',
        )
    return jailed([sys.executable, "-I", str(Path(__file__).with_name(f"{language}_child.py"))])


def _checked(answer: dict[str, Any], output_max: int) -> SandboxAnswer:
    """Return an answer of the right shape; code can reach what its process writes."""
    try:
        checked = msgspec.convert(answer, SandboxAnswer)
    except msgspec.ValidationError:
        checked = {}
    if not checked.keys() & {"output", "problem", "large", "error", "message"}:
        return {"code": "CODE_ERROR", "message": "the code changed the answer of its process"}
    if len(checked.get("output", "")) > output_max:
        return {"large": len(checked["output"]), "logged": checked.get("logged", [])}
    return checked


def _cut(lines: Iterable[str]) -> tuple[str, ...]:
    """Return what was printed, up to the limit that processes keep by themselves."""
    kept: list[str] = []
    left = 2 * _LOGGED_MAX
    for line in lines:
        left -= len(line) + 1
        if left < 0:
            break
        kept.append(line)
    return tuple(kept)


def code_error(answer: SandboxAnswer) -> CodeError:
    """Return what a process says went wrong."""
    if "problem" in answer:
        return CodeError(
            "OUTPUT_NOT_JSON", str(answer["problem"]), hint="return JSON: objects, lists, text, numbers"
        )
    if "large" in answer:
        return CodeError("OUTPUT_TOO_LARGE", f"the output is {answer['large']:,} characters")
    if "error" in answer:
        return _thrown(answer["error"], answer)
    code = answer.get("code", "")
    code = code if code in _CODES else "CODE_ERROR"
    message = answer.get("message", "")[:1000] + str(place(answer))
    return CodeError(code, message, hint=_HINTS.get(code, ""))


def _thrown(error: ThrownError, answer: SandboxAnswer) -> CodeError:
    code = error["code"] if error["code"] == "CODE_NO_NETWORK" else "CODE_ERROR"
    if error["name"] == "InternalError" and "out of memory" in error["message"]:
        code = "CODE_MEMORY"
    elif error["name"] == "InternalError" and "interrupted" in error["message"]:
        code = "CODE_TIMEOUT"
    where = place({**answer, "stack": error["stack"]})
    return CodeError(code, f"{error['name']}: {error['message']}"[:1000] + str(where))


def place(answer: Mapping[str, Any]) -> CodePlace:
    """Return where in the user's code it happened, counted from its first line."""
    if "line" in answer:
        return CodePlace(max(0, answer["line"]), max(0, answer.get("column", 0)))
    match = _PLACE.search(answer.get("stack", ""))
    before = int(answer.get("lines_before", 0))
    if match is None or int(match[1]) <= before:
        return CodePlace()
    return CodePlace(int(match[1]) - before, int(match[2] or 0))
