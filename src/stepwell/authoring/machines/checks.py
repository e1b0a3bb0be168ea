"""Check a machine's class: report all of its problems at once, each with its method and line."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Annotated, Any, Literal, NewType, TypeVar, Union

from stepwell.authoring.context_parameter import context_mismatch
from stepwell.authoring.machines.plan import OutgoingTransitions, by_source, takes_input
from stepwell.authoring.machines.transition import MARK
from stepwell.domain.aliases import without_alias
from stepwell.domain.codec import codec_for
from stepwell.domain.duration import timeout_seconds
from stepwell.domain.limits import checked_concurrency
from stepwell.domain.machine import START, Transition
from stepwell.domain.program import RunOptions, checked_on_failure
from stepwell.domain.retry import Retry
from stepwell.domain.steps import annotations_of, checked_name
from stepwell.domain.suggest import did_you_mean, did_you_mean_one_of
from stepwell.errors import InvalidDefinition, StepwellError

RESERVED = frozenset(
    {"decode_result", "definition", "drawing", "encode_input", "ends", "error", "options", "run", "state"}
    | {"sync"}
)
T = TypeVar("T")
_PLACES = ("on_error", "on_timeout")


class Problems:
    """Collects problems; each text names the method and line it is about."""

    def __init__(self, machine: type) -> None:
        self.machine = machine
        self.texts: list[str] = []

    def add(self, method: Callable[..., Any] | None, text: str) -> None:
        place = where(method) if method is not None else _where_class(self.machine)
        name = getattr(method, "__name__", self.machine.__name__)
        self.texts.append(f"{place} {name}: {text}")

    def raise_if_any(self) -> None:
        if self.texts:
            count = f"{len(self.texts)} problem{'s' if len(self.texts) > 1 else ''}"
            lines = "\n".join(f"  - {text}" for text in self.texts)
            raise InvalidDefinition(
                f"machine {self.machine.__name__} has {count}:\n{lines}",
                hint="fix these and import the module again; nothing was registered",
            )


def where(method: Callable[..., Any]) -> str:
    """Return the file and line of a method."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    return f"{PurePath(code.co_filename).name}:{code.co_firstlineno}" if code is not None else "?"


def _where_class(machine: type) -> str:
    try:
        lines, first = inspect.getsourcelines(machine)
    except (OSError, TypeError):
        return machine.__module__
    del lines
    return f"{PurePath(inspect.getsourcefile(machine) or '?').name}:{first}"


def checked_transitions(machine: type, ends: frozenset[str], problems: Problems) -> list[Transition]:
    """Return the transitions of a class in source order, those of its bases first."""
    transitions = []
    for name, method in _decorated_methods(machine).items():
        transition = _checked(replace(_mark_of(method), name=name, function=method), problems)
        if transition is not None:
            transitions.append(transition)
    if not problems.texts or transitions:
        _check_places(transitions, ends, problems)
        _check_choices(by_source(transitions), problems)
        _check_input(transitions, problems)
    return transitions


def _decorated_methods(machine: type) -> dict[str, Callable[..., Any]]:
    methods: dict[str, Callable[..., Any]] = {}
    for kind in reversed(machine.__mro__):
        for name, value in vars(kind).items():
            if isinstance(_mark_of(value), Transition):
                methods[name] = value
            else:
                methods.pop(name, None)  # a subclass replaced it with something else
    return methods


def _mark_of(value: Any) -> Any:
    """Return the mark that @transition left, also inside a classmethod or staticmethod."""
    return getattr(value, MARK, None) or getattr(getattr(value, "__func__", None), MARK, None)


# One transition


def _checked(written: Transition, problems: Problems) -> Transition | None:
    name, method = written.name, written.function
    before = len(problems.texts)

    def wrong(text: str) -> None:
        problems.add(method, text)

    if name in RESERVED:
        wrong(f"{name!r} is reserved by Machine; give the transition another name")
    sources = _sources(written.sources, wrong)
    _check_targets(written, wrong)
    _check_name(name, wrong)
    retry = _retry(written, wrong)
    timeout = _timeout(written, wrong)
    wait = _wait(written.wait, wrong)
    parameters = _parameters(method, wrong)
    if not isinstance(wait, bool) and parameters > 1:
        _check_payload(method, wait, wrong)
    guard_parameters = _guard(written.when, wrong)
    for mistake in written.mistakes:
        wrong(mistake)
    priority: object = written.priority
    if not isinstance(priority, int) or isinstance(priority, bool):
        wrong(f"priority={priority!r} is not a whole number")
    if len(problems.texts) > before:
        target: object = written.target
        if not sources or not isinstance(target, str) or not target:
            return None
        # It never runs, but it connects places: those must not be reported as well.
        written, parameters = _readable(written), 0
    return replace(
        written,
        sources=sources,
        wait=wait,
        retry=retry,
        timeout=timeout,
        parameters=parameters,
        guard_parameters=guard_parameters,
        threaded=not inspect.iscoroutinefunction(inspect.unwrap(method)),
    )


def _readable(written: Transition) -> Transition:
    """Drop the values that cannot be compared or looked up."""
    places: dict[str, Any] = {
        option: place if isinstance(place := getattr(written, option), str) else "" for option in _PLACES
    }
    return replace(written, priority=0, **places)


def _check_name(name: str, wrong: Callable[[str], None]) -> None:
    try:
        checked_name(name)
    except InvalidDefinition as error:
        wrong(f"{error.message}; {error.hint}")
    else:
        if "@" in name or ":" in name:
            wrong(f"{name!r} contains '@' or ':', which names of places and transitions cannot")


def _sources(source: Any, wrong: Callable[[str], None]) -> tuple[str, ...]:
    places = (source,) if isinstance(source, str) else source
    if not isinstance(places, list | tuple | set | frozenset) or not places:
        wrong(f"source={source!r} is not a place; write a string or a list of strings")
        return ()
    for place in places:
        if isinstance(place, str):
            _check_name(place, wrong)
        else:
            wrong(f"source {place!r} is not a place; places are strings")
    return tuple(dict.fromkeys(p for p in places if isinstance(p, str)))


def _check_targets(written: Transition, wrong: Callable[[str], None]) -> None:
    for what, place in [("target", written.target), *((w, getattr(written, w)) for w in _PLACES)]:
        if not isinstance(place, str) or (what == "target" and not place):
            wrong(f"{what}={place!r} is not a place; places are strings")
        elif place:
            _check_name(place, wrong)


def _retry(written: Transition, wrong: Callable[[str], None]) -> Retry:
    retry: object = written.retry
    if not isinstance(retry, Retry):
        wrong(f"retry={retry!r} is not a Retry; write retry=Retry(3)")
        return Retry(1)
    if retry.then and written.on_error:
        wrong(f"on_error={written.on_error!r} and Retry(then={retry.then!r}) both say where to go; keep one")
    return retry


def _timeout(written: Transition, wrong: Callable[[str], None]) -> float | None:
    if written.timeout is None and written.on_timeout:
        wrong(f"on_timeout={written.on_timeout!r} is never reached: timeout=None disables the timeout")
    try:
        return timeout_seconds(written.timeout)
    except InvalidDefinition as error:
        wrong(f"{error.message}; {error.hint}")
        return None


def _wait(wait: Any, wrong: Callable[[str], None]) -> Any:
    """Return True, False, or the type of the trigger's payload."""
    if wait is Any:
        return True
    if wait is True or wait is False:
        return wait
    try:
        meant = without_alias(wait)
        if isinstance(meant, type | NewType) or hasattr(meant, "__origin__") or hasattr(meant, "__args__"):
            codec_for(wait).schema()
            return wait
    except Exception as error:  # pydantic and msgspec raise many kinds
        wrong(f"wait={wait!r} cannot be read from JSON ({error})")
        return True
    wrong(f"wait={wait!r} is not a type; write wait=True, or the type of the trigger's payload")
    return True


def _parameters(method: Callable[..., Any], wrong: Callable[[str], None]) -> int:
    if isinstance(method, classmethod | staticmethod):
        wrong(f"it is a {type(method).__name__}; write a plain method, which has self.state")
        return 0
    if hasattr(method, "spec"):
        wrong("it is a step, and its options would have no effect here; call the step from the transition")
        return 0
    if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        wrong("it is a generator; a transition returns nothing and changes self.state")
        return 0
    parameters = list(inspect.signature(method).parameters.values())[1:]
    required = [p for p in parameters[2:] if p.default is p.empty]
    if required or any(p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        wrong("it must take (self, ctx) or (self, ctx, payload)")
    mismatch = context_mismatch(method, parameters[0]) if parameters else None
    if mismatch is not None:
        wrong(f"it {mismatch.what}; {mismatch.hint}")
    return min(len(parameters), 2)


def _check_payload(method: Callable[..., Any], schema: Any, wrong: Callable[[str], None]) -> None:
    payload = list(inspect.signature(method).parameters)[2]
    accepted = annotations_of(method).get(payload, Any)
    if _mismatch(schema, accepted):
        wrong(
            f"wait={_type_name(schema)}, but it takes {payload!r} as {_type_name(accepted)}; "
            "give both the same type, or write wait=True to use the parameter's type"
        )


def _guard(when: Any, wrong: Callable[[str], None]) -> int:
    if when is None:
        return 0
    if not callable(when) or inspect.iscoroutinefunction(when):
        wrong(f"when={when!r} is not a plain function; write when=lambda state, input: ...")
        return 0
    try:
        parameters = inspect.signature(when).parameters.values()
    except (TypeError, ValueError):
        return 1
    count = len(parameters)
    if count not in (1, 2) or any(p.kind is p.KEYWORD_ONLY for p in parameters):
        wrong("when= must take (state) or (state, input)")
    return count


# All transitions together


def _check_places(transitions: list[Transition], ends: frozenset[str], problems: Problems) -> None:
    sources = {place for transition in transitions for place in transition.sources}
    if START not in sources:
        problems.add(None, f"no transition leaves {START!r}, where every machine begins")
    for transition in transitions:
        for option, place in transition.destinations():
            if place not in sources and place not in ends:
                problems.add(transition.function, _unknown_place(option, place, sources | ends, ends))
        for place in transition.sources:
            if place in ends:
                problems.add(
                    transition.function, f"leaves {place!r}, which is one of ends: nothing leaves an end"
                )
    entered = {place for transition in transitions for _, place in transition.destinations()}
    reached = _reachable(transitions)
    for transition in transitions:
        for place in transition.sources:
            if place not in entered and place != START:
                problems.add(
                    transition.function,
                    f"nothing leads to {place!r}: a machine has one start, {START!r}, not two",
                )
            elif place not in reached and START in sources:
                problems.add(transition.function, f"{place!r} cannot be reached from {START!r}")
    for place in sorted(ends - entered):
        problems.add(None, f"{place!r} is in ends, but nothing leads to it")


def _unknown_place(option: str, place: str, places: set[str], ends: frozenset[str]) -> str:
    if meant := did_you_mean(place, places - {place}):
        return f"{option} {place!r} is not a place of this machine; {meant}"
    more_ends = ", ".join(repr(end) for end in sorted({*ends, place}))
    return f"{option} {place!r} is a dead end: give it a transition, or write ends = {{{more_ends}}}"


def _reachable(transitions: Iterable[Transition]) -> set[str]:
    reached, before = {START}, 0
    while len(reached) > before:
        before = len(reached)
        for transition in transitions:
            if reached.intersection(transition.sources):
                reached.update(place for _, place in transition.destinations())
    return reached


def _check_choices(outgoing: dict[str, OutgoingTransitions], problems: Problems) -> None:
    for place, leaving in outgoing.items():
        unguarded = [transition for transition in leaving.automatic if transition.when is None]
        for transition in unguarded[1:]:
            if transition.priority == unguarded[0].priority:
                problems.add(
                    transition.function,
                    f"leaves {place!r} automatically, and so does {unguarded[0].name}: "
                    "give one of them when= or wait=",
                )
        if unguarded:
            for transition in leaving.automatic:
                if transition.priority < unguarded[0].priority:
                    problems.add(
                        transition.function,
                        f"is never taken: {unguarded[0].name} always leaves {place!r} first (priority)",
                    )
            for transition in leaving.waiting:
                problems.add(
                    transition.function,
                    f"can never be triggered: {unguarded[0].name} leaves {place!r} automatically",
                )


def _check_input(transitions: list[Transition], problems: Problems) -> None:
    takers = takes_input(transitions)
    for transition in takers[1:]:
        if transition.payload_type != takers[0].payload_type:
            problems.add(
                transition.function,
                f"takes the machine's input as {transition.payload_type!r}, "
                f"but {takers[0].name} as {takers[0].payload_type!r}",
            )


def explain(error: Exception) -> str:
    return error.message if isinstance(error, StepwellError) else f"{type(error).__name__}: {error}"


# Whether a method accepts its trigger's payload, as far as the annotations show


_WIDER = {(int, float), (int, complex), (float, complex)}  # numeric promotions, as type checkers allow them


def _mismatch(offered: Any, accepted: Any) -> bool:
    """Whether some value of `offered` is not an `accepted`. Types that cannot be compared match."""
    alternatives = _alternatives(accepted)
    return any(not any(_fits(one, other) for other in alternatives) for one in _alternatives(offered))


def _type_name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _alternatives(annotation: Any) -> list[Any]:
    try:
        meant = without_alias(annotation)
    except NameError:  # the type is defined further down
        return [Any]
    if isinstance(meant, typing.NewType):
        return _alternatives(meant.__supertype__)
    origin, arguments = typing.get_origin(meant), typing.get_args(meant)
    if origin is Annotated:
        return _alternatives(arguments[0])
    if origin is Union or origin is types.UnionType:
        return [one for argument in arguments for one in _alternatives(argument)]
    if origin is Literal:
        return [type(value) for value in arguments]
    return [meant]


def _fits(offered: Any, accepted: Any) -> bool:
    kind = typing.get_origin(offered) or offered
    wanted = typing.get_origin(accepted) or accepted
    if Any in (kind, wanted) or not (isinstance(kind, type) and isinstance(wanted, type)):
        return True
    try:
        # Reading JSON as an abstract type, such as Sequence, yields one of its subclasses.
        below = issubclass(kind, wanted) or (inspect.isabstract(kind) and issubclass(wanted, kind))
    except TypeError:  # protocols, TypedDict
        return True
    if not below:
        return (kind, wanted) in _WIDER
    parts, wanted_parts = typing.get_args(offered), typing.get_args(accepted)
    if kind is not wanted or len(parts) != len(wanted_parts):
        return True
    return not any(_mismatch(part, other) for part, other in zip(parts, wanted_parts, strict=True))


# Options of the class


_OPTIONS = ("abstract", "concurrency", "name", "on_failure", "priority", "queue", "timeout", "version")


def checked_options(options: Mapping[str, Any], unknown: Mapping[str, Any], problems: Problems) -> RunOptions:
    """Return the checked options of a class, and report each unknown one."""
    for name in unknown:
        problems.add(None, f"{name}= is not an option of a machine; {did_you_mean_one_of(name, _OPTIONS)}")
    priority = options["priority"]
    if not isinstance(priority, int) or isinstance(priority, bool):
        problems.add(None, f"priority={priority!r} is not a whole number")
    return RunOptions(
        timeout=_or_report(problems, None, lambda: timeout_seconds(options["timeout"])),
        queue=_or_report(problems, "", lambda: checked_name(options["queue"])),
        priority=priority,
        concurrency=_or_report(
            problems, None, lambda: checked_concurrency(options["concurrency"], "the class")
        ),
        on_failure=_or_report(problems, "compensate", lambda: checked_on_failure(options["on_failure"])),
    )


def checked_class_name(name: Any, what: str, problems: Problems) -> str:
    return _or_report(problems, "", lambda: checked_name(name, what))


def checked_ends(ends: Any, problems: Problems) -> frozenset[str]:
    if isinstance(ends, str) or not isinstance(ends, set | frozenset | list | tuple):
        problems.add(None, f"ends = {ends!r} is not a set of places; write ends = {{'end'}}")
        return frozenset({ends} if isinstance(ends, str) else ())
    for place in ends:
        if not isinstance(place, str) or not place:
            problems.add(None, f"{place!r} in ends is not a place; places are strings")
    return frozenset(place for place in ends if isinstance(place, str))


def _or_report(problems: Problems, fallback: T, read: Callable[[], T]) -> T:
    """Return what `read` returns; if it raises, report the problem and return the fallback."""
    try:
        return read()
    except InvalidDefinition as error:
        problems.add(None, f"{error.message}; {error.hint}" if error.hint else error.message)
        return fallback
