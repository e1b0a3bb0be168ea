"""Python: code of a node in monty, a Python interpreter without files, network or native code."""

from __future__ import annotations

import ast
import asyncio
import io
import os
import shlex
import stat
import tempfile
import tokenize
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from stepwell.sandbox.errors import CodeError
from stepwell.sandbox.jail import jail
from stepwell.sandbox.javascript import MEMORY_BYTES, CodeResult

_RECURSION = 200
_LOGGED_MAX = 65_536
_NAME = "__node"
_FSTRING_START = getattr(tokenize, "FSTRING_START", -1)  # before Python 3.12 an f-string is a STRING
_FSTRING_END = getattr(tokenize, "FSTRING_END", -1)


def syntax_fault(code: str) -> tuple[str, int, int]:
    """Return what is wrong with the code, its line and column; '' if it can be read. Nothing is executed."""
    try:
        ast.parse(_wrapped(code))
    except SyntaxError as error:
        return error.msg, max(1, (error.lineno or 1) - 1), max(1, (error.offset or 1) - 4)
    except (ValueError, RecursionError, MemoryError) as error:
        return f"the code cannot be read: {type(error).__name__}", 1, 1
    return "", 0, 0


def _wrapped(code: str) -> str:
    """Make it the body of a function, so that `return` works; text over several lines stays as it is."""
    quoted = _quoted_lines(code)
    lines = [line if number in quoted else f"    {line}" for number, line in enumerate(code.split("\n"), 1)]
    return f"def {_NAME}(ctx):\n{chr(10).join(lines)}\n    pass\n"


def _quoted_lines(code: str) -> set[int]:
    """Return the lines that begin inside a string."""
    quoted: set[int] = set()
    opened: list[int] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.STRING:
                quoted.update(range(token.start[0] + 1, token.end[0] + 1))
            elif token.type == _FSTRING_START:
                opened.append(token.start[0])
            elif token.type == _FSTRING_END:
                quoted.update(range(opened.pop() + 1, token.end[0] + 1))
    except (tokenize.TokenError, SyntaxError, IndexError):
        pass  # it cannot be read; the parser says where
    return quoted


class Python:
    def __init__(self, *, processes: int = 2) -> None:
        if find_spec("pydantic_monty") is None:
            raise CodeError(
                "SANDBOX_UNAVAILABLE",
                "this worker cannot run sandboxed Python",
                hint='install it: pip install "stepwell[code]"',
            )
        self._processes = processes
        self._pool: Any = None
        self._opening = asyncio.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    async def run(self, code: str, ctx: Any, *, timeout: float, output_max: int, key: str = "") -> CodeResult:
        """Run the body of a function with `ctx`; what it returns is the output."""
        import pydantic_monty as monty

        fault, line, _ = syntax_fault(code)
        if fault:
            raise CodeError("CODE_SYNTAX", f"{fault} (line {line})")
        pool = await self._opened()
        printed = _Printed()
        limits = monty.ResourceLimits(
            max_feed_duration_secs=timeout,
            max_memory=MEMORY_BYTES,
            max_recursion_depth=_RECURSION,
            max_total_sleep_secs=0.0,
        )
        policy = monty.OSPolicy(sleep="zero", random_start={"seed": key})
        try:
            async with pool.checkout(limits=limits, os_policy=policy) as session:
                output = await session.feed_run(
                    f"{_wrapped(code)}\n{_NAME}(ctx)", inputs={"ctx": ctx}, print_callback=printed
                )
        except monty.MontyCrashedError as error:
            code_of = "CODE_TIMEOUT" if error.timed_out else "CODE_CRASHED"
            raise CodeError(code_of, "the process of the code died") from None
        except monty.MontyError as error:
            raise _error(error) from None
        return CodeResult(_checked(output, output_max), tuple(printed.text().splitlines()))

    async def _opened(self) -> Any:
        import pydantic_monty as monty

        async with self._opening:
            if self._pool is None:
                pool = monty.AsyncMonty(
                    binary_path=self._binary(),
                    max_processes=self._processes,
                    max_checkouts_per_worker=500,
                    feed_duration_limit_grace=0.5,
                )
                await pool.__aenter__()
                self._pool = pool
        return self._pool

    def _binary(self) -> str | None:
        """Return a script that starts the interpreter inside the jail; None: there is no jail."""
        from pydantic_monty._binary import find_monty_binary

        if not jail():
            return None
        self._folder = tempfile.TemporaryDirectory(prefix="stepwell-sandbox-")
        script = Path(self._folder.name, "monty")
        program = find_monty_binary()
        script.write_text(f'#!/bin/sh\nexec {shlex.join(jail())} {shlex.quote(program)} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return os.fspath(script)

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.__aexit__(None, None, None)
        if self._folder is not None:
            self._folder.cleanup()


class _Printed:
    """What the code prints, up to a limit."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._room = _LOGGED_MAX

    def __call__(self, stream: str, text: str) -> None:
        if self._room > 0:
            self._parts.append(text[: self._room] + (" [cut]" if len(text) > self._room else ""))
            self._room -= len(text)

    def text(self) -> str:
        return "".join(self._parts)


def _error(error: Any) -> CodeError:
    inner = error.exception()
    message = f"{type(inner).__name__}: {inner}"[:1000]
    frames = error.traceback() if hasattr(error, "traceback") else []
    place = f" (line {frames[-1].line - 1})" if len(frames) > 1 else ""
    if isinstance(inner, TimeoutError):
        return CodeError("CODE_TIMEOUT", "the code took too long")
    if isinstance(inner, MemoryError):
        return CodeError("CODE_MEMORY", "the code needed too much memory")
    if isinstance(inner, SyntaxError | NotImplementedError):
        return CodeError("CODE_SYNTAX", message + place)
    return CodeError("CODE_ERROR", message + place)


def _checked(output: Any, output_max: int) -> Any:
    problem = _not_json(output, "the output", 0)
    if problem:
        raise CodeError("OUTPUT_NOT_JSON", problem, hint="return JSON: dicts, lists, text, numbers")
    size = len(msgspec.json.encode(output))
    if size > output_max:
        raise CodeError("OUTPUT_TOO_LARGE", f"the output is {size:,} bytes")
    return output


def _not_json(value: Any, path: str, depth: int) -> str:
    if value is None or isinstance(value, bool | str | int):
        return (
            "" if not isinstance(value, int) or -(2**63) <= value < 2**63 else f"{path} is too large a number"
        )
    if isinstance(value, float):
        return "" if value - value == 0 else f"{path} is {value}"
    if depth > 64:
        return f"{path} is nested too deeply"
    if type(value) is dict:
        for key, item in value.items():
            if not isinstance(key, str):
                return f"a key of {path} is not text"
            if problem := _not_json(item, f"{path}.{key}", depth + 1):
                return problem
        return ""
    if type(value) is list:
        for index, item in enumerate(value):
            if problem := _not_json(item, f"{path}[{index}]", depth + 1):
                return problem
        return ""
    return f"{path} is a {type(value).__name__}"
