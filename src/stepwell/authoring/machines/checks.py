"""Checks: what is wrong with a machine, all of it at once, each with the method and line it is about."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Annotated, Any, Literal, NewType, TypeVar, Union

from stepwell.authoring.context_parameter import misfit
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
_PLACES = ("on_error", "on_timeout")


class Problems:
    """Collects what is wrong; each names the method and line it is about."""

    def __init__(self, machine: type) -> None:
        self.machine = machine
        self.found: list[str] = []

    def add(self, method: Callable[..., Any] | None, text: str) -> None:
        place = where(method) if method is not None else _where_class(self.machine)
        name = getattr(method, "__name__", self.machine.__name__)
        self.found.append(f"{place} {name}: {text}")

    def raise_if_any(self) -> None:
        if self.found:
            count = f"{len(self.found)} problem{'s' if len(self.found) > 1 else ''}"
            lines = "\n".join(f"  - {text}" for text in self.found)
            raise InvalidDefinition(
                f"machine {self.machine.__name__} has {count}:\n{lines}",
                hint="mend all of them and import it again; nothing of it was registered",
            )


def where(method: Callable[..., Any]) -> str:
    """The file and line of a method."""
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
    """The transitions of a class, its bases' first, in the order in which they are written."""
    transitions = []
    for name, method in _decorated_methods(machine).items():
        transition = _checked(replace(_mark_of(method), name=name, function=method), problems)
        if transition is not None:
            transitions.append(transition)
    if not problems.found or transitions:
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
    """The mark that @transition left, also inside a classmethod or staticmethod."""
    return getattr(value, MARK, None) or getattr(getattr(value, "__func__", None), MARK, None)


# One transition


def _checked(written: Transition, problems: Problems) -> Transition | None:
    name, method = written.name, written.function
    before = len(problems.found)

    def wrong(text: str) -> None:
        problems.add(method, text)

    if name in RESERVED:
        wrong(f"{name!r} is a name of Machine itself; call the transition something else")
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
        wrong(f"priority={priority!r} is no whole number")
    if len(problems.found) > before:
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
            wrong(f"{name!r} cannot be a name here; leave out '@' and ':'")


def _sources(source: Any, wrong: Callable[[str], None]) -> tuple[str, ...]:
    places = (source,) if isinstance(source, str) else source
    if not isinstance(places, list | tuple | set | frozenset) or not places:
        wrong(f"source={source!r} is no place; write a text or a list of texts")
        return ()
    for place in places:
        if isinstance(place, str):
            _check_name(place, wrong)
        else:
            wrong(f"source {place!r} is no place; places are text")
    return tuple(dict.fromkeys(p for p in places if isinstance(p, str)))


def _check_targets(written: Transition, wrong: Callable[[str], None]) -> None:
    for what, place in [("target", written.target), *((w, getattr(written, w)) for w in _PLACES)]:
        if not isinstance(place, str) or (what == "target" and not place):
            wrong(f"{what}={place!r} is no place; places are text")
        elif place:
            _check_name(place, wrong)


def _retry(written: Transition, wrong: Callable[[str], None]) -> Retry:
    retry: object = written.retry
    if not isinstance(retry, Retry):
        wrong(f"retry={retry!r} is no Retry; write retry=Retry(3)")
        return Retry(1)
    if retry.then and written.on_error:
        wrong(f"on_error={written.on_error!r} and Retry(then={retry.then!r}) say the same thing twice")
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
    """True, False, or the type of the trigger's payload."""
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
    wrong(f"wait={wait!r} is no schema; write wait=True, or the type of what comes with the trigger")
    return True


def _parameters(method: Callable[..., Any], wrong: Callable[[str], None]) -> int:
    if isinstance(method, classmethod | staticmethod):
        wrong(f"it is a {type(method).__name__}; write a plain method, which has self.state")
        return 0
    if hasattr(method, "spec"):
        wrong("it is a step, whose options would not count here; call the step from the transition")
        return 0
    if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        wrong("it is a generator; a transition returns nothing and changes self.state")
        return 0
    parameters = list(inspect.signature(method).parameters.values())[1:]
    required = [p for p in parameters[2:] if p.default is p.empty]
    if required or any(p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        wrong("it must take (self, ctx) or (self, ctx, payload)")
    unfit = misfit(method, parameters[0]) if parameters else None
    if unfit is not None:
        wrong(f"it {unfit.what}; {unfit.hint}")
    return min(len(parameters), 2)


def _check_payload(method: Callable[..., Any], schema: Any, wrong: Callable[[str], None]) -> None:
    payload = list(inspect.signature(method).parameters)[2]
    taken = annotations_of(method).get(payload, Any)
    if misfits(schema, taken):
        wrong(
            f"wait={spelt(schema)}, but it takes {payload!r} as {spelt(taken)}; give both the same type, "
            "or write wait=True: then the parameter says it"
        )


def _guard(when: Any, wrong: Callable[[str], None]) -> int:
    if when is None:
        return 0
    if not callable(when) or inspect.iscoroutinefunction(when):
        wrong(f"when={when!r} is no plain function; write when=lambda state, input: ...")
        return 0
    try:
        parameters = inspect.signature(when).parameters.values()
    except (TypeError, ValueError):
        return 1
    taken = len(parameters)
    if taken not in (1, 2) or any(p.kind is p.KEYWORD_ONLY for p in parameters):
        wrong("when= must take (state) or (state, input); it sees nothing else")
    return taken


# All of them together


def _check_places(transitions: list[Transition], ends: frozenset[str], problems: Problems) -> None:
    sources = {place for transition in transitions for place in transition.sources}
    if START not in sources:
        problems.add(None, f"no transition leaves {START!r}, where every machine begins")
    for transition in transitions:
        for what, place in transition.destinations():
            if place not in sources and place not in ends:
                problems.add(transition.function, _nowhere(what, place, sources | ends, ends))
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


def _nowhere(what: str, place: str, known: set[str], ends: frozenset[str]) -> str:
    if meant := did_you_mean(place, known - {place}):
        return f"{what} {place!r} is no known place; {meant}"
    shown = ", ".join(repr(end) for end in sorted({*ends, place}))
    return f"{what} {place!r} is a dead end: give it a transition, or say ends = {{{shown}}}"


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
        plain = [transition for transition in leaving.automatic if transition.when is None]
        for transition in plain[1:]:
            if transition.priority == plain[0].priority:
                problems.add(
                    transition.function,
                    f"leaves {place!r} by itself, and so does {plain[0].name}: give one when= or wait=",
                )
        if plain:
            for transition in leaving.automatic:
                if transition.priority < plain[0].priority:
                    problems.add(
                        transition.function,
                        f"is never taken: {plain[0].name} always leaves {place!r} before (priority)",
                    )
            for transition in leaving.waiting:
                problems.add(
                    transition.function, f"is never waited for: {plain[0].name} leaves {place!r} by itself"
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


# Whether a method can take a trigger's payload, as far as two annotations show


_WIDER = {(int, float), (int, complex), (float, complex)}  # as type checkers see numbers


def misfits(given: Any, taken: Any) -> bool:
    """Some value of the one type is none of the other. What cannot be compared fits."""
    wanted = _alternatives(taken)
    return any(not any(_fits(one, other) for other in wanted) for one in _alternatives(given))


def spelt(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _alternatives(annotation: Any) -> list[Any]:
    try:
        meant = without_alias(annotation)
    except NameError:  # of a type that is defined further down
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


def _fits(given: Any, taken: Any) -> bool:
    kind, wanted = typing.get_origin(given) or given, typing.get_origin(taken) or taken
    if Any in (kind, wanted) or not (isinstance(kind, type) and isinstance(wanted, type)):
        return True
    try:
        # What is read for an abstract type, such as Sequence, is one of those below it.
        below = issubclass(kind, wanted) or (inspect.isabstract(kind) and issubclass(wanted, kind))
    except TypeError:  # protocols, TypedDict
        return True
    if not below:
        return (kind, wanted) in _WIDER
    parts, wanted_parts = typing.get_args(given), typing.get_args(taken)
    if kind is not wanted or len(parts) != len(wanted_parts):
        return True
    return not any(misfits(part, other) for part, other in zip(parts, wanted_parts, strict=True))


# Options of the class


T = TypeVar("T")

NAMES = ("abstract", "concurrency", "name", "on_failure", "priority", "queue", "timeout", "version")


def checked_options(given: Mapping[str, Any], unknown: Mapping[str, Any], problems: Problems) -> RunOptions:
    """The options of a class; `unknown` are those that nobody takes."""
    for name in unknown:
        problems.add(None, f"{name}= is no option of a machine; {did_you_mean_one_of(name, NAMES)}")
    priority = given["priority"]
    if not isinstance(priority, int) or isinstance(priority, bool):
        problems.add(None, f"priority={priority!r} is no whole number")
    return RunOptions(
        timeout=_told(problems, None, lambda: timeout_seconds(given["timeout"])),
        queue=_told(problems, "", lambda: checked_name(given["queue"])),
        priority=priority,
        concurrency=_told(problems, None, lambda: checked_concurrency(given["concurrency"], "the class")),
        on_failure=_told(problems, "compensate", lambda: checked_on_failure(given["on_failure"])),
    )


def told_name(name: Any, what: str, problems: Problems) -> str:
    return _told(problems, "", lambda: checked_name(name, what))


def checked_ends(ends: Any, problems: Problems) -> frozenset[str]:
    if isinstance(ends, str) or not isinstance(ends, set | frozenset | list | tuple):
        problems.add(None, f"ends = {ends!r} is no set of places; write ends = {{'end'}}")
        return frozenset({ends} if isinstance(ends, str) else ())
    for place in ends:
        if not isinstance(place, str) or not place:
            problems.add(None, f"{place!r} in ends is no place; places are text")
    return frozenset(place for place in ends if isinstance(place, str))


def _told(problems: Problems, instead: T, read: Callable[[], T]) -> T:
    try:
        return read()
    except InvalidDefinition as error:
        problems.add(None, f"{error.message}; {error.hint}" if error.hint else error.message)
        return instead
