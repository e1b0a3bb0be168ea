"""@step: options for a function that a workflow calls through ctx.step."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from threading import get_ident
from types import FrameType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from stepwell.authoring.decorator import declares
from stepwell.domain.compensation import declare
from stepwell.domain.duration import Duration, timeout_seconds
from stepwell.domain.program import StepContext
from stepwell.domain.retry import ONCE, Retry
from stepwell.domain.secret import checked_secret_name
from stepwell.domain.steps import STEP_TIMEOUT, Isolation, StepSpec, checked_name, describe, parameter_names
from stepwell.domain.workflow_code import DirectCalls, thread_code
from stepwell.errors import DirectStepCall, InvalidDefinition, InvalidInput, NotDurable, excerpt

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
_UNSET: Any = object()


class Step(Generic[P, R, C]):
    """A step. Called outside a run, or by another step, it calls its function.

    P are the arguments that the workflow passes, R is the result, C is what a plain call returns (an
    awaitable for an async function).
    """

    def __init__(self, spec: StepSpec) -> None:
        self.spec = spec
        functools.update_wrapper(self, spec.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        check_direct_call(self.spec.name)
        if self.spec.wants_context and not (args and isinstance(args[0], StepContext)):
            alone = StepContext(run_id="", path=self.spec.name, attempt=1, lease="")
            return self.spec.function(alone, *args, **kwargs)  # type: ignore[no-any-return]  # the user's own
        return self.spec.function(*args, **kwargs)  # type: ignore[no-any-return]  # the user's own

    @property
    def result_of(self) -> Callable[P, R]:
        """For type checkers: what ctx.step returns."""
        return self.spec.function

    def options(
        self,
        *,
        name: str = "",
        retry: Retry = _UNSET,
        timeout: Duration | None = _UNSET,
        queue: str = _UNSET,
    ) -> Step[P, R, C]:
        """The same step with other options, for one call: ctx.step(charge.options(timeout="1m"), x)."""
        changes: dict[str, Any] = {}
        if name:
            changes["name"] = checked_name(name)
        if retry is not _UNSET:
            _check_retry(retry)
            changes["retry"] = retry
        if timeout is not _UNSET:
            changes["timeout"] = timeout_seconds(timeout)
        if queue is not _UNSET:
            changes["queue"] = checked_name(queue, "a queue") if queue else ""
        return Step(replace(self.spec, **changes))

    def __reduce__(self) -> str:
        """Pickle by name, as the function itself would be: ProcessPoolExecutor().submit(charge, order)."""
        return str(getattr(self, "__qualname__", self.spec.name))

    def __repr__(self) -> str:
        return f"<step {self.spec.name}>"


class _Decorator(Protocol):
    @overload
    def __call__(
        self, function: Callable[Concatenate[StepContext, P], Awaitable[R]], /
    ) -> Step[P, R, Awaitable[R]]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[StepContext, P], R], /) -> Step[P, R, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Step[P, R, Awaitable[R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Step[P, R, R]: ...


class _UndoableDecorator(Protocol[R]):
    """Requires that the compensation accepts the step's result."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[StepContext, P], Awaitable[R]], /
    ) -> Step[P, R, Awaitable[R]]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[StepContext, P], R], /) -> Step[P, R, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Step[P, R, Awaitable[R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Step[P, R, R]: ...


def _check_retry(retry: object) -> None:
    if not isinstance(retry, Retry):
        raise InvalidDefinition(f"a step with retry={excerpt(retry)}", hint="write retry=Retry(3)")
    if retry.then:
        raise InvalidDefinition(
            f"a step with Retry(then={excerpt(retry.then)})",
            hint="`then` names a place of a machine; for a step, catch StepError in the workflow",
        )


def _checked_secrets(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise InvalidDefinition(f"@step(secrets={excerpt(names)})", hint=f'write secrets=["{names}"]')
    try:
        return tuple(checked_secret_name(name) for name in names)
    except InvalidInput as error:
        raise InvalidDefinition(error.message, hint=error.hint) from None


def _compensation_spec(function: Callable[..., Any]) -> StepSpec:
    """Give a plain function three attempts: if it fails, nothing else undoes the step."""
    spec = getattr(function, "spec", None)
    return spec if isinstance(spec, StepSpec) else describe(function, retry=Retry(3))


@overload
def step(function: Callable[Concatenate[StepContext, P], Awaitable[R]], /) -> Step[P, R, Awaitable[R]]: ...
@overload
def step(function: Callable[Concatenate[StepContext, P], R], /) -> Step[P, R, R]: ...
@overload
def step(function: Callable[P, Awaitable[R]], /) -> Step[P, R, Awaitable[R]]: ...
@overload
def step(function: Callable[P, R], /) -> Step[P, R, R]: ...
@overload
def step(
    *,
    name: str = "",
    retry: Retry = ONCE,
    timeout: Duration | None = STEP_TIMEOUT,
    isolation: Isolation = "none",
    queue: str = "",
    transactional: bool = False,
    secrets: Sequence[str] = (),
    compensate: None = None,
) -> _Decorator: ...
@overload
def step(
    *,
    name: str = "",
    retry: Retry = ONCE,
    timeout: Duration | None = STEP_TIMEOUT,
    isolation: Isolation = "none",
    queue: str = "",
    transactional: bool = False,
    secrets: Sequence[str] = (),
    compensate: Callable[Concatenate[StepContext, R, ...], object],
) -> _UndoableDecorator[R]: ...
@overload
def step(
    *,
    name: str = "",
    retry: Retry = ONCE,
    timeout: Duration | None = STEP_TIMEOUT,
    isolation: Isolation = "none",
    queue: str = "",
    transactional: bool = False,
    secrets: Sequence[str] = (),
    compensate: Callable[Concatenate[R, ...], object],
) -> _UndoableDecorator[R]: ...
@overload
def step(
    *,
    name: str = "",
    retry: Retry = ONCE,
    timeout: Duration | None = STEP_TIMEOUT,
    isolation: Isolation = "none",
    queue: str = "",
    transactional: bool = False,
    secrets: Sequence[str] = (),
    compensate: Callable[[], object],
) -> _Decorator: ...
@declares("@step, or @step(retry=Retry(3))")
def step(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    retry: Retry = ONCE,
    timeout: Duration | None = STEP_TIMEOUT,
    isolation: Isolation = "none",
    queue: str = "",
    transactional: bool = False,
    secrets: Sequence[str] = (),
    compensate: Callable[..., Any] | None = None,
) -> Any:
    """Declare a step: `@step`, or `@step(retry=Retry(5), timeout="20s")`.

    A transactional step gets the open transaction of the engine's database as its first argument. Its
    writes there and its recorded result are committed together, exactly once.

    `compensate` undoes the step when the run fails or is cancelled. It is called with the step's result
    and then with as many of the step's arguments as it takes. A plain function gets three attempts.
    Steps completed before `ctx.continue_as_new` are not undone.

    `secrets` names values that the step gets as `StepContext.secrets`; they are opened before each attempt.
    """
    if transactional not in (True, False):
        raise InvalidDefinition(f"@step(transactional={excerpt(transactional)})", hint="use True or False")
    if queue != "":
        checked_name(queue, "a queue")
    if transactional and (queue or isolation != "none"):
        raise InvalidDefinition(
            "a transactional step must run in the process that has the engine's connection",
            hint="remove queue= and isolation=, or remove transactional=",
        )
    if isolation not in ("none", "process"):
        raise InvalidDefinition(f"@step(isolation={excerpt(isolation)})", hint='use "none" or "process"')
    _check_retry(retry)
    limit = timeout_seconds(timeout, name="@step timeout")
    named = _checked_secrets(secrets)

    def decorate(target: Callable[..., Any]) -> Step[..., Any, Any]:
        if hasattr(target, "definition"):
            raise InvalidDefinition(
                f"{excerpt(target)} is not a step", hint="run it as a child: await ctx.run(workflow, input)"
            )
        if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
            raise InvalidDefinition(f"step {target.__name__} is a generator", hint="return a list instead")
        spec = describe(
            target,
            name=name,
            retry=retry,
            timeout=limit,
            isolation=isolation,
            queue=queue,
            transactional=transactional,
            secrets=named,
        )
        if transactional and not parameter_names(target):
            raise InvalidDefinition(
                f"step {spec.name} is transactional but takes no arguments",
                hint="its first parameter is the connection",
            )
        if compensate is not None:
            spec = replace(spec, compensate=declare(_compensation_spec(compensate), spec))
        return Step(spec)

    return decorate if function is None else decorate(function)


# Direct calls: a step called in workflow code as a plain function runs again at every replay


def check_direct_call(name: str) -> None:
    """Warn or raise if workflow code runs now. Elsewhere (in other steps, in tests) a direct call is fine."""
    setting = _direct_calls()
    if setting is None:
        return
    message = f"step {name} was called directly in workflow code, so it runs again at every replay"
    hint = f"write ctx.step({name}, ...), with await if the workflow is async"
    if setting == "error":
        raise NotDurable(message, hint=hint, where=_where(sys._getframe(2)))
    warnings.warn(f"{message}; {hint}", DirectStepCall, stacklevel=3)


def _direct_calls() -> DirectCalls | None:
    """The setting of the workflow code that runs now; None if none does."""
    events = sys.modules.get("asyncio.events")  # not loaded: no loop runs
    loop = None if events is None else events._get_running_loop()
    setting: DirectCalls | None = getattr(loop, "direct_calls", None)
    code = thread_code.get()
    if setting is None and code is not None and code.thread == get_ident():
        setting = code.direct_calls
    return setting


def _where(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
