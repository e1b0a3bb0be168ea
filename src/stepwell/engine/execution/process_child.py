"""The other side of `processes`: reads requests, runs the step, answers. Run with -m and the worker's pid."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import os
import sys
from typing import Any, BinaryIO

import msgspec
from msgspec import Raw

from stepwell.domain.events import NULL, DocumentSaved, Problem
from stepwell.domain.problems import problem_of
from stepwell.domain.program import StepContext
from stepwell.domain.retry import kinds_of
from stepwell.domain.steps import StepSpec, decode_arguments, describe, spec_of
from stepwell.engine.execution.exit_guard import as_failure
from stepwell.engine.execution.lifeline import Lifeline
from stepwell.errors import Permanent, RetryAfter


class Request(msgspec.Struct, frozen=True):
    path: list[str]
    module: str
    name: str
    arguments: Raw
    run_id: str
    step_path: str
    attempt: int
    lease: str


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    result: Raw = NULL
    error: Problem | None = None
    permanent: bool = False
    retry_after: float | None = None
    documents: list[DocumentSaved] = []
    kinds: list[str] = []  # the error's classes, so that a retry policy can tell them


def main(worker: int) -> None:
    lifeline = Lifeline(worker)
    lifeline.tie()
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the step prints must not get between the replies
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # nor may it, or a program that it calls, read the requests
    os.close(nothing)
    while True:
        head = requests.read(8)
        if len(head) < 8:
            return
        request = msgspec.json.decode(requests.read(int.from_bytes(head, "big")), type=Request)
        _send(replies, _answer(request, lifeline))


def _send(replies: BinaryIO, reply: Reply) -> None:
    data = msgspec.json.encode(reply)
    replies.write(len(data).to_bytes(8, "big") + data)
    replies.flush()


def _answer(request: Request, lifeline: Lifeline) -> Reply:
    try:
        lifeline.check()  # the request may have waited in the pipe for longer than its worker lived
        spec = _load(request)
        args, kwargs = decode_arguments(spec, request.arguments)
        context: StepContext | None = None
        if spec.wants_context:
            context = StepContext(
                run_id=request.run_id, path=request.step_path, attempt=request.attempt, lease=request.lease
            )
            args.insert(0, context)
        lifeline.check()
        result = spec.function(*args, **kwargs)
        if inspect.isawaitable(result):
            result = asyncio.run(_await(result))
        saved = context.saved if context is not None else []
        return Reply(result=Raw(spec.returns.encode(result)), documents=saved)
    except (Exception, SystemExit) as raised:
        error = as_failure(raised)
        return Reply(
            error=problem_of(error),
            permanent=isinstance(error, Permanent),
            retry_after=error.seconds if isinstance(error, RetryAfter) else None,
            kinds=kinds_of(error),
        )


async def _await(awaitable: Any) -> Any:
    return await awaitable


def _load(request: Request) -> StepSpec:
    for entry in request.path:
        if entry not in sys.path:
            sys.path.append(entry)
    module = _module(request.module)
    target: Any = module
    for part in request.name.split("."):
        target = getattr(target, part)
    spec = spec_of(target)
    return spec if not hasattr(target, "spec") else describe(target.spec.function)


def _module(name: str) -> Any:
    if not name.startswith("file:"):
        return importlib.import_module(name)
    known = sys.modules.get("__stepwell_main__")
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location("__stepwell_main__", name.removeprefix("file:"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["__stepwell_main__"] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(int(sys.argv[1]))
