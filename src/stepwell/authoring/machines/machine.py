"""Machine: a durable run written as places and the transitions between them."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Collection
from typing import Any, ClassVar, Generic, Literal, TypeVar

from stepwell.authoring.machines.checks import (
    Problems,
    checked_ends,
    checked_options,
    checked_transitions,
    explain,
    told_name,
)
from stepwell.authoring.machines.description import describe
from stepwell.authoring.machines.plan import MachinePlan, codec_of
from stepwell.authoring.machines.program import run_machine
from stepwell.domain.aliases import without_alias
from stepwell.domain.codec import canonical, digest
from stepwell.domain.commit import Definition
from stepwell.domain.duration import Duration
from stepwell.domain.events import Problem
from stepwell.domain.program import OnFailure, RunOptions
from stepwell.errors import InvalidInput

State = TypeVar("State")


class Machine(Generic[State]):
    """A state machine: `class Refund(Machine[RefundState])` with methods decorated by @transition.

    It begins at the place "start" and has reached its end at one of `ends`; its result is the state
    there. `self.state` is a copy that becomes the machine's when the transition completes. `self.error`
    is the failure that led to this place, if one did. Options come with the class:
    `class Refund(Machine[RefundState], version="2", timeout="1h", concurrency=10)`.
    """

    ends: ClassVar[Collection[str]] = ("end",)
    sync: ClassVar[bool] = False
    options: ClassVar[RunOptions] = RunOptions()
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
        **unknown: Any,
    ) -> None:
        super().__init_subclass__()
        problems = Problems(cls)
        given = {"timeout": timeout, "queue": queue, "priority": priority, "concurrency": concurrency}
        options = checked_options({**given, "on_failure": on_failure}, unknown, problems)
        name = told_name(cls.__name__ if name == "" else name, "the name of a machine", problems)
        version = told_name(version, "the version of a machine", problems)
        if abstract:  # transitions for machines to inherit
            return problems.raise_if_any()
        ends = checked_ends(cls.ends, problems)
        transitions = checked_transitions(cls, ends, problems)
        _check_state(cls, problems)
        problems.raise_if_any()
        cls._plan = MachinePlan(cls, transitions, ends, lambda: state_type(cls))
        cls.options = options
        cls.definition = _Definitions(name, version)  # type: ignore[assignment]  # made when it is first asked for

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
        """The machine as a Mermaid state diagram, or as an SVG picture."""
        from stepwell.authoring.machines.drawing import drawn

        return drawn(cls._plan, cls.definition.name, format)

    def __repr__(self) -> str:
        return f"<machine {type(self).__name__}>"


class _Definitions:
    """The definition of the class that asks; made late, because it names types."""

    def __init__(self, name: str, version: str) -> None:
        self._name = name
        self._version = version
        self._made: Definition | None = None

    def __get__(self, instance: object, machine: type[Machine[Any]]) -> Definition:
        if self._made is None:
            plan, options = machine._plan, machine.options
            body = describe(plan, name=self._name, version=self._version)
            self._made = Definition(
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
            )
        return self._made


def _json(value: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


def state_type(machine: type) -> Any:
    """The type between the brackets of Machine[...]; None: it was left out."""
    return type_between_brackets(machine, Machine)


def _check_state(machine: type, problems: Problems) -> None:
    found = state_type(machine)
    if found is None:
        problems.add(None, "the type of its state is missing: class X(Machine[XState])")
        return
    if isinstance(found, typing.ForwardRef):
        return  # defined further down; looked at when the machine is first used
    try:
        codec_of(found).encode(found())
    except Exception as error:  # whatever their type makes of it
        problems.add(
            None, f"its state cannot begin as {getattr(found, '__name__', found)}(): {explain(error)}"
        )
    constructor = inspect.signature(machine)
    if any(
        p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        for p in constructor.parameters.values()
    ):
        problems.add(None, "its __init__ must work without arguments; what it needs belongs into the state")


# The type of the state: the argument of Machine[...], or of a generic base


def type_between_brackets(kind: type, machine: type) -> Any:
    """None: it was left out. A ForwardRef: a name in quotes that is not defined yet."""
    found = _given(kind, machine)
    return None if found is None or isinstance(found, TypeVar) else without_alias(found)


def _given(kind: type, machine: type) -> Any:
    """What a class gives to Machine[...]: the first of its bases that says it, else a variable or None."""
    told = [
        _of_base(typing.get_origin(base) or base, typing.get_args(base), kind, machine)
        for base in vars(kind).get("__orig_bases__", kind.__bases__)
    ]
    said = [found for found in told if found is not None]
    return next((found for found in said if not isinstance(found, TypeVar)), said[0] if said else None)


def _of_base(origin: Any, arguments: tuple[Any, ...], kind: type, machine: type) -> Any:
    if not (isinstance(origin, type) and issubclass(origin, machine)):
        return None
    arguments = tuple(_resolved(argument, kind) for argument in arguments)
    if origin is machine:
        return arguments[0] if arguments else None
    variables = getattr(origin, "__parameters__", ())
    return _filled_in(_given(origin, machine), dict(zip(variables, arguments, strict=False)))


def _filled_in(annotation: Any, meant: dict[Any, Any]) -> Any:
    if isinstance(annotation, TypeVar):
        return meant.get(annotation, annotation)
    named = () if isinstance(annotation, type) else getattr(annotation, "__parameters__", ())
    return annotation[tuple(meant.get(variable, variable) for variable in named)] if named else annotation


def _resolved(argument: Any, kind: type) -> Any:
    """A name in quotes is looked up where the class is."""
    if isinstance(argument, typing.ForwardRef):
        module = inspect.getmodule(kind)
        return vars(module).get(argument.__forward_arg__, argument) if module else argument
    return argument
