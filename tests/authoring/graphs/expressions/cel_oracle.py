"""CEL in Rust as an oracle, in a child process: it holds the interpreter's lock, and it can crash.

As a script it reads one JSON line with an expression and a scope, and answers with a line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

FAULT = object()


class Oracle:
    """What CEL says of an expression: a value, or FAULT."""

    def __enter__(self) -> Self:
        self._child = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.communicate(timeout=30)

    def evaluate(self, source: str, scope: dict[str, Any]) -> Any:
        assert self._child.stdin
        assert self._child.stdout
        self._child.stdin.write(json.dumps([source, scope]) + "\n")
        self._child.stdin.flush()
        answer = json.loads(self._child.stdout.readline())
        return answer.get("value", FAULT)


def serve() -> None:
    import cel

    for line in sys.stdin:
        source, scope = json.loads(line)
        try:
            answer = {"value": cel.evaluate(source, scope)}
            written = json.dumps(answer)
        except BaseException as error:
            written = json.dumps({"error": repr(error)})
        print(written, flush=True)


if __name__ == "__main__":
    serve()
