"""Machine: a workflow written as places and the transitions between them."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec

from stepwell.authoring.machines.checks import (
    Problems,
    checked_class_name,
    checked_ends,
    checked_options,
    checked_transitions,
    explain,
)
from stepwell.authoring.machines.description import describe
from stepwell.authoring.machines.plan import MachinePlan, codec_of
from stepwell.authoring.machines.program import run_machine
from stepwell.authoring.title import described
from stepwell.domain.aliases import without_alias
from stepwell.domain.codec import canonical, digest
from stepwell.domain.commit import Definition
from stepwell.domain.duration import Duration
from stepwell.domain.events import Problem
from stepwell.domain.program import OnFailure, RunOptions
from stepwell.domain.triggers.declared import DeclaredTrigger, checked_declared
from stepwell.errors import InvalidInput

State = TypeVar("State")


class Machine(Generic[State]):
    """A state machine: `class Refund(Machine[RefundState])` with methods decorated by @transition.

    A run begins at the place "start" and completes at one of `ends`; its result is the state there.
    `self.state` is a copy; it becomes the machine's state when the transition completes. `self.error` is
    the failure that led to this place, if any. Options are given to the class:
    `class Refund(Machine[RefundState], version="2", timeout="1h", concurrency=10)`.
    """

    ends: ClassVar[Collection[str]] = ("end",)
    sync: ClassVar[bool] = False
    options: ClassVar[RunOptions] = RunOptions()
    triggers: ClassVar[Sequence[DeclaredTrigger]] = ()
    definition: ClassVar[Definition]
    _plan: ClassVar[MachinePlan]

    state: State
    error: Problem | None = None

    def __init_subclass__(
        cls,
        *,
        name: str = "",
        version: str = "1",
        timeout: Duration | None = None,
        queue: str = "default",
        priority: int = 0,
        concurrency: int | None = None,
        on_failure: OnFailure = "compensate",
        abstract: bool = False,
        title: str = "",
        triggers: Iterable[DeclaredTrigger] = (),
        **unknown: Any,
    ) -> None:
        super().__init_subclass__()
        problems = Problems(cls)
        options = checked_options(
            {
                "timeout": timeout,
                "queue": queue,
                "priority": priority,
                "concurrency": concurrency,
                "on_failure": on_failure,
            },
            unknown,
            problems,
        )
        name = checked_class_name(cls.__name__ if name == "" else name, "the name of a machine", problems)
        version = checked_class_name(version, "the version of a machine", problems)
        if abstract:  # only a base of other machines
            return problems.raise_if_any()
        ends = checked_ends(cls.ends, problems)
        transitions = checked_transitions(cls, ends, problems)
        _check_state(cls, problems)
        problems.raise_if_any()
        cls._plan = MachinePlan(cls, transitions, ends, lambda: state_type(cls))
        cls.options = options
        cls.triggers = checked_declared(triggers, f"machine {name}")
        cls.definition = _Definitions(name, version, title)  # type: ignore[assignment]  # built at first access

    @classmethod
    def encode_input(cls, input: Any) -> bytes:
        try:
            return cls._plan.input.encode(input)
        except InvalidInput as error:
            error.context = {"workflow": cls.definition.name, **error.context}
            raise

    @classmethod
    def canonical_input(cls, input: Any) -> bytes:
        return canonical(cls._plan.input, input)

    @classmethod
    def decode_result(cls, data: bytes) -> State:
        result: State = cls._plan.state.decode(data)
        return result

    @classmethod
    async def run(cls, ctx: Any, input: bytes) -> bytes:
        return await run_machine(cls._plan, ctx, input)

    @classmethod
    def drawing(cls, format: Literal["mermaid", "svg"] = "mermaid") -> str:
        """Draw the machine as a Mermaid state diagram or as SVG."""
        from stepwell.authoring.machines.drawing import drawn

        return drawn(msgspec.json.decode(cls.definition.body), format, cls.__name__)

    def __repr__(self) -> str:
        return f"<machine {type(self).__name__}>"


class _Definitions:
    """Builds the definition at first access, when all types it names are defined."""

    def __init__(self, name: str, version: str, title: str) -> None:
        self._name = name
        self._version = version
        self._title = title
        self._definition: Definition | None = None

    def __get__(self, instance: object, machine: type[Machine[Any]]) -> Definition:
        if self._definition is None:
            plan, options = machine._plan, machine.options
            body = describe(plan, name=self._name, version=self._version)
            title, description = described(vars(machine).get("__doc__"), self._title)
            self._definition = Definition(
                name=self._name,
                version=self._version,
                kind="machine",
                hash=digest(body),
                body=body,
                input_schema=_json(plan.input.schema()),
                options=_json(
                    {
                        "timeout": options.timeout,
                        "queue": options.queue,
                        "priority": options.priority,
                        "concurrency": options.concurrency,
                        "on_failure": options.on_failure,
                    }
                ),
                title=title,
                description=description,
            )
        return self._definition


def _json(value: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


def state_type(machine: type) -> Any:
    """Return S of Machine[S]; None if it was left out."""
    return _state_argument(machine, Machine)


def _check_state(machine: type, problems: Problems) -> None:
    state = state_type(machine)
    if state is None:
        problems.add(None, "the type of its state is missing: class X(Machine[XState])")
        return
    if isinstance(state, typing.ForwardRef):
        return  # defined further down; checked when the machine is first used
    try:
        codec_of(state).encode(state())
    except Exception as error:  # the user's type may raise anything
        problems.add(
            None, f"its state cannot be created with {getattr(state, '__name__', state)}(): {explain(error)}"
        )
    constructor = inspect.signature(machine)
    if any(
        p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        for p in constructor.parameters.values()
    ):
        problems.add(None, "its __init__ must work without arguments; put what it needs into the state")


# The type of the state: S of Machine[S], or of a generic base


def _state_argument(kind: type, machine: type) -> Any:
    """Return the type argument; None if it was left out, a ForwardRef if the name is not defined yet."""
    argument = _argument_of(kind, machine)
    return None if argument is None or isinstance(argument, TypeVar) else without_alias(argument)


def _argument_of(kind: type, machine: type) -> Any:
    """The argument of Machine[...]: the first concrete one among the bases, else a TypeVar or None."""
    arguments = [
        _argument_of_base(typing.get_origin(base) or base, typing.get_args(base), kind, machine)
        for base in vars(kind).get("__orig_bases__", kind.__bases__)
    ]
    arguments = [argument for argument in arguments if argument is not None]
    concrete = (argument for argument in arguments if not isinstance(argument, TypeVar))
    return next(concrete, arguments[0] if arguments else None)


def _argument_of_base(origin: Any, arguments: tuple[Any, ...], kind: type, machine: type) -> Any:
    if not (isinstance(origin, type) and issubclass(origin, machine)):
        return None
    arguments = tuple(_resolved(argument, kind) for argument in arguments)
    if origin is machine:
        return arguments[0] if arguments else None
    variables = getattr(origin, "__parameters__", ())
    return _substituted(_argument_of(origin, machine), dict(zip(variables, arguments, strict=False)))


def _substituted(annotation: Any, values: dict[Any, Any]) -> Any:
    if isinstance(annotation, TypeVar):
        return values.get(annotation, annotation)
    variables = () if isinstance(annotation, type) else getattr(annotation, "__parameters__", ())
    return annotation[tuple(values.get(v, v) for v in variables)] if variables else annotation


def _resolved(argument: Any, kind: type) -> Any:
    """Look up a quoted name in the module of the class."""
    if isinstance(argument, typing.ForwardRef):
        module = inspect.getmodule(kind)
        return vars(module).get(argument.__forward_arg__, argument) if module else argument
    return argument
