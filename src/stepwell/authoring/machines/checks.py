"""Checks: what is wrong with a machine, all of it at once, each with the method and line it is about."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import Any, NewType

from stepwell.authoring.context_parameter import misfit
from stepwell.authoring.machines.exits import START, Exit, Exits, by_place
from stepwell.authoring.machines.transition import MARK, Declared
from stepwell.authoring.machines.trigger_fit import misfits, spelt
from stepwell.domain.aliases import without_alias
from stepwell.domain.codec import codec_for
from stepwell.domain.duration import timeout_seconds
from stepwell.domain.machine import Transition
from stepwell.domain.retry import Retry
from stepwell.domain.steps import annotations_of, checked_name
from stepwell.domain.suggest import did_you_mean
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


def checked_exits(machine: type, ends: frozenset[str], problems: Problems) -> list[Exit]:
    """The transitions of a class, its bases' first, in the order in which they are written."""
    exits = []
    for name, method in declared_in(machine).items():
        exit = _exit(name, method, mark_of(method), problems)
        if exit is not None:
            exits.append(exit)
    if not problems.found or exits:
        _check_places(exits, ends, problems)
        _check_choices(by_place(exits), problems)
        _check_input(exits, problems)
    return exits


def declared_in(machine: type) -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for kind in reversed(machine.__mro__):
        for name, value in vars(kind).items():
            if isinstance(mark_of(value), Declared):
                found[name] = value
            else:
                found.pop(name, None)  # a subclass put something else in its place
    return found


def mark_of(value: Any) -> Any:
    """What @transition said of it, also inside a classmethod or staticmethod."""
    return getattr(value, MARK, None) or getattr(getattr(value, "__func__", None), MARK, None)


# One transition


def _exit(name: str, method: Callable[..., Any], declared: Declared, problems: Problems) -> Exit | None:
    before = len(problems.found)

    def wrong(text: str) -> None:
        problems.add(method, text)

    if name in RESERVED:
        wrong(f"{name!r} is a name of Machine itself; call the transition something else")
    sources = _sources(declared.source, wrong)
    _check_targets(declared, wrong)
    _check_name(name, wrong)
    retry = _retry(declared, wrong)
    timeout = _timeout(declared, wrong)
    schema = _schema(declared.wait, wrong)
    takes = _parameters(method, wrong)
    if schema is not Any and takes > 1:
        _check_payload(method, schema, wrong)
    takes_input = _guard(declared.when, wrong)
    if declared.twice:
        wrong(
            "it has @transition twice, and one is lost: name several sources in a list, or write two methods"
        )
    if declared.replaces:
        wrong(f"it replaces the transition of that name at line {declared.replaces}: give one another name")
    if not isinstance(declared.priority, int) or isinstance(declared.priority, bool):
        wrong(f"priority={declared.priority!r} is no whole number")
    if len(problems.found) > before:
        if not sources or not isinstance(declared.target, str) or not declared.target:
            return None
        # It never runs, but it leads from place to place: those are not to be reported as well.
        declared, takes = _mended(declared), 0
    moves = {
        source: Transition(
            name=name,
            source=source,
            target=declared.target,
            retry=retry,
            timeout=timeout,
            on_error=declared.on_error,
            on_timeout=declared.on_timeout,
            threaded=not inspect.iscoroutinefunction(inspect.unwrap(method)),
        )
        for source in sources
    }
    return Exit(
        name=name,
        function=method,
        sources=sources,
        target=declared.target,
        waits=declared.wait is not False,
        schema=schema,
        when=declared.when,
        takes=takes,
        takes_input=takes_input,
        priority=declared.priority,
        moves=moves,
    )


def _mended(declared: Declared) -> Declared:
    places: dict[str, Any] = {
        what: place if isinstance(place := getattr(declared, what), str) else "" for what in _PLACES
    }
    return replace(declared, priority=0, **places)


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


def _check_targets(declared: Declared, wrong: Callable[[str], None]) -> None:
    for what, place in [("target", declared.target), *((w, getattr(declared, w)) for w in _PLACES)]:
        if not isinstance(place, str) or (what == "target" and not place):
            wrong(f"{what}={place!r} is no place; places are text")
        elif place:
            _check_name(place, wrong)


def _retry(declared: Declared, wrong: Callable[[str], None]) -> Retry:
    retry: object = declared.retry
    if not isinstance(retry, Retry):
        wrong(f"retry={retry!r} is no Retry; write retry=Retry(3)")
        return Retry(1)
    if retry.then and declared.on_error:
        wrong(f"on_error={declared.on_error!r} and Retry(then={retry.then!r}) say the same thing twice")
    return retry


def _timeout(declared: Declared, wrong: Callable[[str], None]) -> float | None:
    if declared.timeout is None and declared.on_timeout:
        wrong(f"on_timeout={declared.on_timeout!r} is never reached: timeout=None disables the timeout")
    try:
        return timeout_seconds(declared.timeout)
    except InvalidDefinition as error:
        wrong(f"{error.message}; {error.hint}")
        return None


def _schema(wait: Any, wrong: Callable[[str], None]) -> Any:
    """The type of what a trigger brings; True takes what the method's annotation says."""
    if wait is True or wait is False:
        return Any
    try:
        meant = without_alias(wait)
        if isinstance(meant, type | NewType) or hasattr(meant, "__origin__") or hasattr(meant, "__args__"):
            codec_for(wait).schema()
            return wait
    except Exception as error:  # whatever pydantic or msgspec make of it
        wrong(f"wait={wait!r} cannot be read from JSON ({error})")
        return Any
    wrong(f"wait={wait!r} is no schema; write wait=True, or the type of what comes with the trigger")
    return Any


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


def _check_places(exits: list[Exit], ends: frozenset[str], problems: Problems) -> None:
    sources = {place for exit in exits for place in exit.sources}
    if START not in sources:
        problems.add(None, f"no transition leaves {START!r}, where every machine begins")
    for exit in exits:
        for what, place in _leads_to(exit):
            if place not in sources and place not in ends:
                problems.add(exit.function, _nowhere(what, place, sources | ends, ends))
        for place in exit.sources:
            if place in ends:
                problems.add(exit.function, f"leaves {place!r}, which is one of ends: nothing leaves an end")
    entered = {place for exit in exits for _, place in _leads_to(exit)}
    reached = _reachable(exits)
    for exit in exits:
        for place in exit.sources:
            if place not in entered and place != START:
                problems.add(
                    exit.function, f"nothing leads to {place!r}: a machine has one start, {START!r}, not two"
                )
            elif place not in reached and START in sources:
                problems.add(exit.function, f"{place!r} cannot be reached from {START!r}")
    for place in sorted(ends - entered):
        problems.add(None, f"{place!r} is in ends, but nothing leads to it")


def _leads_to(exit: Exit) -> Iterator[tuple[str, str]]:
    yield "target", exit.target
    move = next(iter(exit.moves.values()))
    yield from (
        (what, place)
        for what, place in [
            ("on_error", move.on_error),
            ("on_timeout", move.on_timeout),
            ("Retry(then)", move.retry.then),
        ]
        if place
    )


def _nowhere(what: str, place: str, known: set[str], ends: frozenset[str]) -> str:
    if meant := did_you_mean(place, known - {place}):
        return f"{what} {place!r} is no known place; {meant}"
    shown = ", ".join(repr(end) for end in sorted({*ends, place}))
    return f"{what} {place!r} is a dead end: give it a transition, or say ends = {{{shown}}}"


def _reachable(exits: Iterable[Exit]) -> set[str]:
    reached, before = {START}, 0
    while len(reached) > before:
        before = len(reached)
        for exit in exits:
            if reached.intersection(exit.sources):
                reached.update(place for _, place in _leads_to(exit))
    return reached


def _check_choices(places: dict[str, Exits], problems: Problems) -> None:
    for place, exits in places.items():
        plain = [exit for exit in exits.automatic if exit.when is None]
        for exit in plain[1:]:
            if exit.priority == plain[0].priority:
                problems.add(
                    exit.function,
                    f"leaves {place!r} by itself, and so does {plain[0].name}: give one when= or wait=",
                )
        if plain:
            for exit in exits.automatic:
                if exit.priority < plain[0].priority:
                    problems.add(
                        exit.function,
                        f"is never taken: {plain[0].name} always leaves {place!r} before (priority)",
                    )
            for exit in exits.waiting:
                problems.add(
                    exit.function, f"is never waited for: {plain[0].name} leaves {place!r} by itself"
                )


def _check_input(exits: list[Exit], problems: Problems) -> None:
    takers = [exit for exit in exits if not exit.waits and exit.takes > 1]
    for exit in takers[1:]:
        if exit.payload_type != takers[0].payload_type:
            problems.add(
                exit.function,
                f"takes the machine's input as {exit.payload_type!r}, "
                f"but {takers[0].name} as {takers[0].payload_type!r}",
            )


def explain(error: Exception) -> str:
    return error.message if isinstance(error, StepwellError) else f"{type(error).__name__}: {error}"
