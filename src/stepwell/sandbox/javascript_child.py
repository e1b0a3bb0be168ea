"""The program of a JavaScript sandbox: runs the code of requests, each in a fresh context.

It is started by its path, in a separate process, and imports nothing of the package. A request or an answer
is four bytes of length and JSON.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from typing import Any, BinaryIO

import quickjs  # type: ignore[import-untyped]

sys.path.insert(0, os.path.dirname(__file__))
import confinement  # type: ignore[import-not-found]  # the module beside this file

_STACK_BYTES = 256 * 1024
_PARSE_SECONDS = 2.0
_LENGTH = struct.Struct(">I")

# The wrapper encloses the user's code. Data arrives as text, never as source, so it cannot become code.
# The line break before the closing brace ends a comment in the last line of the code.
_BEFORE = """(function () {
  "use strict";
  const text = globalThis.__ctx, outputMax = globalThis.__max;
  delete globalThis.__ctx; delete globalThis.__max; delete globalThis.performance;
  const stringify = JSON.stringify, isArray = Array.isArray, keys = Object.keys, freeze = Object.freeze;
  const proto = Object.getPrototypeOf, plain = Object.prototype, finite = Number.isFinite, String_ = String;
  const deep = (value) => {
    const waiting = [value];
    while (waiting.length) {
      const next = waiting.pop();
      if (next !== null && typeof next === "object") {
        for (const key of keys(next)) waiting.push(next[key]);
        freeze(next);
      }
    }
    return value;
  };
  const bad = (value, path, above) => {
    const kind = typeof value;
    if (value === null || kind === "string" || kind === "boolean") return "";
    if (kind === "number") return finite(value) ? "" : path + " is " + String_(value);
    if (kind !== "object") return path + " is " + (kind === "undefined" ? kind : "a " + kind);
    if (above.includes(value)) return path + " contains itself";
    const simple = isArray(value) || proto(value) === plain || proto(value) === null;
    if (!simple) return path + " is a special object";
    const inside = above.concat([value]);
    for (const key of keys(value)) {
      const step = isArray(value) ? "[" + key + "]" : "." + key;
      if (!isArray(value) && value[key] === undefined) continue;
      const problem = bad(value[key], path + step, inside);
      if (problem) return problem;
    }
    return "";
  };
  const logged = [];
  let room = 65536;
  const log = (...values) => {
    if (room <= 0) return;
    const line = values.map((v) => {
      if (typeof v === "string") return v;
      try { return stringify(v) ?? String_(v); } catch { return "?"; }
    }).join(" ").slice(0, room);
    room -= line.length + 1;
    logged.push(room > 0 ? line : line + " [cut]");
  };
  globalThis.console = freeze({ log, info: log, warn: log, error: log, debug: log });
  globalThis.fetch = () => {
    const error = new Error("there is no network here: use an http node");
    error.code = "CODE_NO_NETWORK";
    throw error;
  };
  const failed = (error) => {
    let name = "Error", message = "", stack = "", code = "";
    try {
      if (error !== null && typeof error === "object") {
        name = String_(error.name ?? "Error"); message = String_(error.message ?? "");
        stack = String_(error.stack ?? ""); code = String_(error.code ?? "");
      } else { message = String_(error); }
    } catch { message = "it cannot be shown"; }
    globalThis.__end = stringify({ error: { name, message, stack, code }, logged });
  };
  const done = (value) => {
    try {
      if (value === undefined) value = null;
      const problem = bad(value, "the output", []);
      if (problem) { globalThis.__end = stringify({ problem, logged }); return; }
      const output = stringify(value);
      globalThis.__end = output.length > outputMax
        ? stringify({ large: output.length, logged }) : stringify({ output, logged });
    } catch (error) { failed(error); }
  };
  const ctx = deep(JSON.parse(text));
  (async function (ctx) {
"""
_LINES_BEFORE = _BEFORE.count("\n")
_AFTER = """
  })(ctx).then(done, failed);
})()"""

# To check whether code parses, it is put after a statement that ends the program: all of it is
# parsed, none of it executed. Code that closes the function around it hardly fits into both wrappers.
_UNREACHED = (
    ('throw null; (function () { "use strict"; (async function (ctx) {\n', "\n})})"),
    ("throw null; (class { async node(ctx) {\n", "\n} })"),
)


def main() -> None:
    confinement.confine()
    confinement.forbid_threads()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        request = _read(requests)
        if request is None:
            return
        _write(answers, _parse(request) if request.get("parse") else _run(request))


def _parse(request: dict[str, Any]) -> dict[str, Any]:
    """Report what is wrong with the code. Nothing of it is executed."""
    for before, after in _UNREACHED:
        context = quickjs.Context()
        context.set_memory_limit(request["memory"])
        context.set_max_stack_size(_STACK_BYTES)
        context.set_time_limit(_PARSE_SECONDS)
        try:
            context.eval(before + request["code"] + after)
        except quickjs.JSException as error:
            text = str(error)
            if text.strip() != "null":
                return {**_exception(text), "code": "CODE_SYNTAX", "lines_before": 1}
    return {}


def _run(request: dict[str, Any]) -> dict[str, Any]:
    context = quickjs.Context()
    context.set_memory_limit(request["memory"])
    context.set_max_stack_size(_STACK_BYTES)
    context.set_time_limit(request["timeout"])
    context.set("__ctx", request["ctx"])
    context.set("__max", request["output_max"])
    deadline = time.monotonic() + request["timeout"]
    try:
        context.eval(_BEFORE + request["code"] + _AFTER)
        while context.execute_pending_job():
            if time.monotonic() > deadline:
                return {"code": "CODE_TIMEOUT", "message": "the code took too long"}
        end = context.get("__end")
    except quickjs.JSException as error:
        return _exception(str(error))
    if not isinstance(end, str):
        return {"code": "CODE_ERROR", "message": "the code waits for a promise that nothing settles"}
    return dict(json.loads(end))


def _exception(text: str) -> dict[str, Any]:
    """Describe an error outside the user's function: the code does not parse, or a limit ended it."""
    first = text.splitlines()[0] if text else "unknown"
    if "interrupted" in first:
        return {"code": "CODE_TIMEOUT", "message": "the code took too long"}
    if "out of memory" in first or first in ("null", "unknown"):
        return {"code": "CODE_MEMORY", "message": "the code needed too much memory"}
    if first.startswith("SyntaxError"):
        return {"code": "CODE_SYNTAX", "message": first, "stack": text, "lines_before": _LINES_BEFORE}
    return {"code": "CODE_ERROR", "message": first}


def _read(stream: BinaryIO) -> dict[str, Any] | None:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    return dict(json.loads(stream.read(_LENGTH.unpack(head)[0])))


def _write(stream: BinaryIO, answer: dict[str, Any]) -> None:
    data = json.dumps({"lines_before": _LINES_BEFORE, **answer}).encode()
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


if __name__ == "__main__":
    main()
