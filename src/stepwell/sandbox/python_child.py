"""The program of a Python sandbox: lets monty run or parse the code of requests, in the same jail.

It is started by its path, in a separate process, and imports nothing of the package. A request or an answer
is four bytes of length and JSON.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import struct
import sys
import tempfile
import tokenize
from typing import Any, BinaryIO

import pydantic_monty as monty
from pydantic_monty._binary import find_monty_binary

sys.path.insert(0, os.path.dirname(__file__))
import confinement  # type: ignore[import-not-found]  # the module beside this file

_RECURSION = 200
_PARSE_SECONDS = 2.0
_GRACE_SECONDS = 0.5
_LOGGED_MAX = 65_536
_NAME = "__node"
_LENGTH = struct.Struct(">I")
_FSTRING_START = getattr(tokenize, "FSTRING_START", -1)  # before Python 3.12 an f-string is a STRING
_FSTRING_END = getattr(tokenize, "FSTRING_END", -1)
# Precedes code that is only parsed. The module ends here, so that nothing after it is executed.
_UNREACHED = "raise StopIteration\n"


def main() -> None:
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    with tempfile.TemporaryDirectory(prefix="stepwell-sandbox-") as folder:
        pool = monty.Monty(
            binary_path=_launcher(folder),
            max_processes=1,
            feed_duration_limit_grace=_GRACE_SECONDS,
            turn_duration_limit_grace=None,
        )
        pool.__enter__()
        with pool.checkout() as session:
            session.feed_run("1")  # its process has started and no longer needs the launcher
    confinement.confine(kill=False)  # from now on no process can be started
    while True:
        request = _read(requests)
        if request is None:
            return
        try:
            answer = _parse(pool, request) if request.get("parse") else _run(pool, request)
        except monty.MontyCrashedError as error:
            _write(answers, {**_crash(error), "ends": True})
            return
        _write(answers, answer)


def _crash(error: monty.MontyCrashedError) -> dict[str, Any]:
    if error.timed_out:
        return {"code": "CODE_TIMEOUT", "message": "the process of the code died"}
    if "SIGSYS" in str(error):  # the only sign of how it ended
        return {"code": "CODE_PROCESS_LIMIT", "message": "the code tried to start a process"}
    return {"code": "CODE_CRASHED", "message": "the process of the code died"}


def _launcher(folder: str) -> str:
    """Return a program that confines itself and becomes the interpreter."""
    path = os.path.join(folder, "monty")
    command = [sys.executable, "-I", "-S", confinement.__file__, os.fspath(find_monty_binary())]
    with open(path, "w", encoding="utf-8") as script:
        script.write(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    os.chmod(path, 0o700)
    return path


def _parse(pool: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Report what is wrong with the code. Nothing of it is executed."""
    with pool.checkout(limits=_limits(request, _PARSE_SECONDS)) as session:
        try:
            session.feed_run(_UNREACHED + wrapped(request["code"]))
        except monty.MontyCrashedError:
            raise
        except monty.MontyError as error:
            inner = error.exception()
            if isinstance(inner, StopIteration):
                return {}
            frames = error.traceback() if hasattr(error, "traceback") else []
            line, column = (frames[-1].line - 2, frames[-1].column - 4) if frames else (1, 1)
            return {"code": "CODE_SYNTAX", "message": str(inner), "line": line, "column": column}
    return {}


def _run(pool: Any, request: dict[str, Any]) -> dict[str, Any]:
    printed = _Printed()
    policy: dict[str, Any] = {"sleep": "zero", "random_start": {"seed": request["key"]}}
    with pool.checkout(limits=_limits(request, request["timeout"]), os_policy=policy) as session:
        try:
            output = session.feed_run(
                f"{wrapped(request['code'])}\n{_NAME}(ctx)",
                inputs={"ctx": json.loads(request["ctx"])},
                print_callback=printed,
            )
        except monty.MontyCrashedError:
            raise
        except monty.MontyError as error:
            return {**_failure(error), "logged": printed.lines()}
    problem = not_json(output, "the output", 0)
    if problem:
        return {"problem": problem, "logged": printed.lines()}
    text = json.dumps(output, ensure_ascii=False, separators=(",", ":"))
    if len(text.encode("utf-8", "surrogatepass")) > request["output_max"]:
        return {"large": len(text), "logged": printed.lines()}
    return {"output": text, "logged": printed.lines()}


def _limits(request: dict[str, Any], seconds: float) -> Any:
    return monty.ResourceLimits(
        max_feed_duration_secs=seconds,
        max_memory=request["memory"],
        max_recursion_depth=_RECURSION,
        max_total_sleep_secs=0.0,
    )


def _failure(error: Any) -> dict[str, Any]:
    inner = error.exception()
    if isinstance(inner, TimeoutError):
        return {"code": "CODE_TIMEOUT", "message": "the code took too long"}
    if isinstance(inner, MemoryError):
        return {"code": "CODE_MEMORY", "message": "the code needed too much memory"}
    frames = error.traceback() if hasattr(error, "traceback") else []
    message = f"{type(inner).__name__}: {inner}"
    if isinstance(inner, SyntaxError | NotImplementedError):
        line = frames[-1].line - 1 if frames else 1
        return {"code": "CODE_SYNTAX", "message": message, "line": line}
    return {"code": "CODE_ERROR", "message": message, "line": frames[-1].line - 1 if len(frames) > 1 else 0}


def wrapped(code: str) -> str:
    """Make the code the body of a function, so that `return` works. Multi-line strings stay as they are."""
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
        pass  # it does not parse; the parser says where
    return quoted


def not_json(value: Any, path: str, depth: int) -> str:
    """Return where a value is not JSON, or ''."""
    if value is None or isinstance(value, bool | str):
        return ""
    if isinstance(value, int):
        return "" if -(2**63) <= value < 2**63 else f"{path} is too large a number"
    if isinstance(value, float):
        return "" if value - value == 0 else f"{path} is {value}"
    if depth > 64:
        return f"{path} is nested too deeply"
    if type(value) is dict:
        for key, item in value.items():
            if not isinstance(key, str):
                return f"a key of {path} is not text"
            if problem := not_json(item, f"{path}.{key}", depth + 1):
                return problem
        return ""
    if type(value) is list:
        for index, item in enumerate(value):
            if problem := not_json(item, f"{path}[{index}]", depth + 1):
                return problem
        return ""
    return f"{path} is a {type(value).__name__}"


class _Printed:
    """The printed output, up to a limit."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._room = _LOGGED_MAX

    def __call__(self, stream: str, text: str) -> None:
        if self._room >= 0:
            self._parts.append(text[: self._room] + (" [cut]" if len(text) > self._room else ""))
            self._room -= len(text)

    def lines(self) -> list[str]:
        return "".join(self._parts).splitlines()


def _read(stream: BinaryIO) -> dict[str, Any] | None:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    return dict(json.loads(stream.read(_LENGTH.unpack(head)[0])))


def _write(stream: BinaryIO, answer: dict[str, Any]) -> None:
    data = json.dumps(answer).encode()
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


if __name__ == "__main__":
    main()
