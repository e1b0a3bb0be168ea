"""Program and Context: where authoring and engine meet.

A program is a workflow in any style; the engine runs it over a context. Everything durable that workflow code
can do is a verb of `Context`. The engine implements it; authors only see this protocol.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, get_args, overload

from msgspec import Raw

from stepwell.domain.codec import encoded_by_type
from stepwell.domain.commit import Definition
from stepwell.domain.documents import DETAILS, USAGE, shown_details, shown_usage
from stepwell.domain.duration import Duration
from stepwell.domain.events import Accepted, DocumentSaved, NodeFact
from stepwell.domain.ids import RunId, needs_workflow
from stepwell.domain.steps import StepSpec, checked_name
from stepwell.domain.usage import NOTHING_USED, checked_usage
from stepwell.errors import InvalidDefinition, excerpt

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
In = TypeVar("In")
I_contra = TypeVar("I_contra", contravariant=True)
T = TypeVar("T")


class StepFunction(Protocol[P, R_co]):
    """A decorated step: still callable, and typed to return R whether it is sync or async."""

    @property
    def result_of(self) -> Callable[P, R_co]: ...


class Program(Protocol):
    """A workflow that a worker can run."""

    @property
    def definition(self) -> Definition: ...

    @property
    def options(self) -> RunOptions: ...

    @property
    def sync(self) -> bool:
        """The body is a plain function: it runs in a thread, over a SyncContext."""
        ...

    def run(self, ctx: Any, input: bytes) -> Any:
        """The coroutine (or, if `sync`, the call) that returns the encoded result."""
        ...

    def encode_input(self, input: Any) -> bytes: ...


class Startable(Protocol[I_contra, R_co]):
    """Something that can be started with an input of type In and returns an R."""

    @property
    def definition(self) -> Definition: ...

    @property
    def options(self) -> RunOptions: ...

    def encode_input(self, input: I_contra) -> bytes: ...

    def decode_result(self, data: bytes) -> R_co: ...


OnFailure = Literal["compensate", "hold"]  # hold: undo nothing, so that a person can retry it


def checked_on_failure(word: OnFailure) -> OnFailure:
    """Return the word, or raise InvalidDefinition: not everybody uses a type checker."""
    if word not in get_args(OnFailure):
        raise InvalidDefinition(f"on_failure={excerpt(word)}", hint='use "compensate" or "hold"')
    return word


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options that a definition sets for each of its runs."""

    timeout: float | None = None  # seconds, without the time that the run is suspended
    queue: str = "default"
    priority: int = 0
    on_failure: OnFailure = "compensate"
    concurrency: int | None = None  # runs at once; a limit of the workflow replaces it at run time


def needs_of(definition: Definition) -> str:
    return needs_workflow(definition.name, definition.version)


def former_needs(program: Program) -> list[str]:
    """The needs of runs that an earlier release of Stepwell started with this same workflow.

    There a graph's version was the hash of all its JSON, including the positions of its nodes.
    """
    versions: tuple[str, ...] = getattr(program, "former_versions", ())
    return [needs_workflow(program.definition.name, version) for version in versions]


_NO_SECRETS: Mapping[str, str] = MappingProxyType({})


class StepContext:
    """What a step can know about its own execution: annotate the first parameter with it to get one."""

    __stepwell__ = "step_context"
    __slots__ = (
        *("_details", "_used", "attempt", "key", "lease", "path", "run_id", "saved", "secrets"),
        "tell",
    )

    def __init__(
        self, *, run_id: str, path: str, attempt: int, lease: str, secrets: Mapping[str, str] = _NO_SECRETS
    ) -> None:
        self.run_id = run_id
        self.path = path
        self.attempt = attempt
        self.lease = lease
        self.key = f"{run_id}/{path}"
        """The same for every attempt of this step: pass it to the service you call."""
        self.secrets = secrets
        """Values of the secrets that the step names: `@step(secrets=["stripe"])`."""
        self.saved: list[DocumentSaved] = []
        self._details: dict[str, Any] = {}
        self._used = NOTHING_USED
        self.tell: Callable[[str, bytes], None] | None = None  # the run; set by its worker

    def publish(self, topic: str, data: Any = None) -> None:
        """News for clients that follow the run, at once: `ctx.publish("rows", 300)`.

        Each is an event of the run's log, so publish a few in a second at most. A step on another queue or
        in a process of its own tells nobody.
        """
        news = encoded_by_type(data)
        if self.tell is not None:
            self.tell(checked_name(topic), news)

    def save(self, name: str, value: Any) -> None:
        """Save a document: a new version of that name, visible when this attempt has completed."""
        document = Raw(encoded_by_type(value))
        self.saved.append(
            DocumentSaved(name=checked_name(name), type=type(value).__qualname__, value=document)
        )

    def details(self, **values: Any) -> None:
        """Show something beside the result in the trace: `ctx.details(rows=3, model="m")`; 4 KiB at most."""
        self._details.update(values)
        self.saved[:] = [one for one in self.saved if one.name != DETAILS]
        self.saved.append(shown_details(self._details))

    def usage(self, *, input_tokens: int = 0, output_tokens: int = 0, cost: float = 0.0) -> None:
        """Count what a model used: `ctx.usage(input_tokens=512, output_tokens=80, cost=0.004)`.

        Several calls add up. The trace shows it, and the run's row counts it, whether the attempt succeeds
        or fails.
        """
        self._used = self._used.plus(checked_usage(input_tokens, output_tokens, cost))
        self.saved[:] = [one for one in self.saved if one.name != USAGE]
        self.saved.append(shown_usage(self._used))


class ChildHandle(Protocol[R_co]):
    """A child run that was started; await it for its result."""

    @property
    def id(self) -> RunId: ...

    def __await__(self) -> Generator[Any, Any, R_co]: ...

    async def result(self) -> R_co: ...


class StepVerb(Protocol):
    """`await ctx.step(fn, *args)`, or `ctx.step.on(queue="gpu")(fn, *args)`."""

    @overload
    def __call__(
        self, function: StepFunction[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def __call__(
        self, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def __call__(
        self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...

    def on(self, *, queue: str) -> StepVerb:
        """Run the step on any worker of that queue."""
        ...


class Context(Protocol):
    """What workflow code can do durably."""

    @property
    def run_id(self) -> RunId: ...

    @property
    def step(self) -> StepVerb: ...

    @property
    def attempt(self) -> int:
        """How often a worker has claimed this run."""
        ...

    @property
    def key(self) -> str:
        """This run's idempotency key; a step gets its own through `StepContext`."""
        ...

    async def sleep(self, duration: Duration) -> None:
        """Durable: survives restarts, never wakes early, costs nothing while it lasts."""
        ...

    @overload
    async def signal(self, name: str, type: type[T], *, timeout: Duration | None = None) -> T: ...
    @overload
    async def signal(self, name: str, *, timeout: Duration | None = None) -> Any: ...
    async def signal(self, name: str, type: Any = Any, *, timeout: Duration | None = None) -> Any:
        """The next signal of that name, even if it came earlier; WaitTimedOut if none comes."""
        ...

    @overload
    async def event(
        self, name: str, type: type[T], *, key: str = "", timeout: Duration | None = None
    ) -> T: ...
    @overload
    async def event(self, name: str, *, key: str = "", timeout: Duration | None = None) -> Any: ...
    async def event(
        self, name: str, type: Any = Any, *, key: str = "", timeout: Duration | None = None
    ) -> Any:
        """The next broadcast event of that name (and key) that this run has not taken.

        Events come in the order in which they were emitted, each once, beginning with the run's start."""
        ...

    def webhook(self, name: str = "webhook", *, secret: str = "", scheme: str = "") -> str:
        """The path of an address that nobody can guess, for one delivery to this run: see `delivery`.

        With `secret`, the name of a secret, its sender must sign (`scheme="standard"`) or send it ("bearer",
        "basic")."""
        ...

    @overload
    async def delivery(self, path: str, type: type[T], *, timeout: Duration | None = None) -> T: ...
    @overload
    async def delivery(self, path: str, *, timeout: Duration | None = None) -> Any: ...
    async def delivery(self, path: str, type: Any = Any, *, timeout: Duration | None = None) -> Any:
        """What another service sent to the address of this run, even if it came earlier."""
        ...

    async def approval(
        self,
        form: type[T],
        *,
        title: str = "",
        assignees: Sequence[str] = (),
        timeout: Duration | None = None,
        name: str = "approval",
        required: int = 1,
        bar_starter: bool = False,
    ) -> T:
        """Ask people, and return the decision that answers the question.

        `required` people must approve; the answer of the last one is returned, or that of the first who
        denies. With `bar_starter` the person who started the run may not decide it.
        """
        ...

    @overload
    async def map(
        self, function: Callable[[In], Awaitable[R]], items: Iterable[In], *, limit: int = 50
    ) -> list[R]: ...
    @overload
    async def map(self, function: Callable[[In], R], items: Iterable[In], *, limit: int = 50) -> list[R]: ...
    async def map(self, function: Any, items: Iterable[Any], *, limit: int = 50) -> Any:
        """Run the step for each item, `limit` at a time; results are in the order of the items."""
        ...

    async def all(self, *awaitables: Awaitable[T]) -> list[T]:
        """Wait for all of them, running concurrently; the first error cancels the others."""
        ...

    async def first(self, *awaitables: Awaitable[T]) -> T:
        """Wait for the first one that ends, and cancel the others. The winner is recorded."""
        ...

    async def run(self, workflow: Startable[In, R], input: In = ...) -> R:
        """Run a child and wait for its result."""
        ...

    async def start(
        self, workflow: Startable[In, R], input: In = ..., *, detached: bool = False, trigger: str = ""
    ) -> ChildHandle[R]:
        """Start a child; a detached one lives on its own. In a machine its result may `trigger` a later
        transition, which receives that result; a child that fails triggers nothing."""
        ...

    def now(self) -> datetime:
        """The time, recorded: a replay sees the same."""
        ...

    def random(self) -> float:
        """A number in [0, 1) that a replay sees again."""
        ...

    def uuid(self) -> uuid.UUID: ...

    def patched(self, change: str) -> bool:
        """True for runs that reach this place with the new code; False for runs that passed it before: they
        completed or opened something after it."""
        ...

    def continue_as_new(self, input: Any = ...) -> Any:
        """Leave this code and begin again with `input` and an empty history.

        The steps so far are settled: a later failure or cancel does not undo them (`compensate=`).
        """
        ...

    def publish(self, topic: str, data: Any = None) -> None:
        """News for clients that follow the run."""
        ...

    def progress(self, done: float, total: float | None = None, text: str = "") -> None: ...

    def save(self, name: str, value: Any) -> None:
        """Save a document: a new version of that name. Steps save theirs through `StepContext`."""
        ...

    @overload
    async def document(self, name: str) -> Any: ...
    @overload
    async def document(self, name: str, type: type[T]) -> T: ...
    async def document(self, name: str, type: Any = Any) -> Any:
        """The latest visible version; DocumentNotFound if there is none."""
        ...


Answered = Callable[[Any], object]


class PathCalls(Protocol):
    """Durable calls at paths that the program names itself, for programs that keep their own state.

    `answered` is called with the call's future, in log order; a replay must ask for the same paths.
    """

    @property
    def run_id(self) -> str: ...
    @property
    def accepted(self) -> Accepted: ...
    def path(self, place: str) -> str: ...
    def future(self) -> Any: ...
    def recorded(self, place: str) -> bool: ...
    def step(
        self, place: str, spec: StepSpec, args: tuple[Any, ...], kwargs: dict[str, Any], answered: Answered
    ) -> Any: ...
    def attempt(self, call: Any) -> int: ...
    def timer(self, place: str, seconds: float, answered: Answered, *, retry: bool = False) -> Any: ...
    def event(self, place: str, name: str, key: str, timeout: float | None, answered: Answered) -> Any: ...
    def signal(self, place: str, name: str, answered: Answered) -> Any: ...
    def question(
        self,
        place: str,
        form: Mapping[str, Any],
        answered: Answered,
        *,
        title: str,
        assignees: tuple[str, ...],
        timeout: float | None,
        required: int = 1,
        bar_starter: bool = False,
    ) -> Any: ...
    def child(
        self,
        place: str,
        workflow: Startable[Any, Any] | None,
        input: Any,
        answered: Answered,
        *,
        detached: bool = False,
    ) -> Any: ...
    def child_result(self, place: str, answered: Answered) -> Any: ...
    def find(self, place: str, name: str, version: str, answered: Answered) -> Any: ...
    def looked_up(self, result: Any) -> Startable[Any, Any] | None: ...
    def withdraw(self, call: Any) -> None: ...
    def forgo(self, place: str) -> None: ...
    def on_variable(self, take: Callable[[str, Raw], None] | None) -> None: ...
    def started(self, place: str) -> None: ...
    def note(self, fact: NodeFact, place: str) -> None: ...
    def time(self, place: str) -> float: ...
    def workflow(self, name: str, version: str) -> Startable[Any, Any] | None: ...


class SyncChildHandle(Protocol[R_co]):
    @property
    def id(self) -> RunId: ...

    def result(self) -> R_co: ...


class SyncStepVerb(Protocol):
    """`ctx.step(fn, *args)` of a plain workflow function."""

    @overload
    def __call__(self, function: StepFunction[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def on(self, *, queue: str) -> SyncStepVerb: ...


class SyncContext(Protocol):
    """What a plain workflow function can do durably: the verbs of `Context`, without `await`."""

    run_id: RunId
    key: str
    attempt: int

    @property
    def step(self) -> SyncStepVerb: ...
    def sleep(self, duration: Duration) -> None: ...
    @overload
    def signal(self, name: str, type: type[T], *, timeout: Duration | None = None) -> T: ...
    @overload
    def signal(self, name: str, *, timeout: Duration | None = None) -> Any: ...
    def signal(self, name: str, type: Any = Any, *, timeout: Duration | None = None) -> Any: ...
    @overload
    def event(self, name: str, type: type[T], *, key: str = "", timeout: Duration | None = None) -> T: ...
    @overload
    def event(self, name: str, *, key: str = "", timeout: Duration | None = None) -> Any: ...
    def event(self, name: str, type: Any = Any, *, key: str = "", timeout: Duration | None = None) -> Any: ...
    def webhook(self, name: str = "webhook", *, secret: str = "", scheme: str = "") -> str: ...
    @overload
    def delivery(self, path: str, type: type[T], *, timeout: Duration | None = None) -> T: ...
    @overload
    def delivery(self, path: str, *, timeout: Duration | None = None) -> Any: ...
    def delivery(self, path: str, type: Any = Any, *, timeout: Duration | None = None) -> Any: ...
    def approval(
        self,
        form: type[T],
        *,
        title: str = "",
        assignees: Sequence[str] = (),
        timeout: Duration | None = None,
        name: str = "approval",
        required: int = 1,
        bar_starter: bool = False,
    ) -> T: ...
    def map(self, function: Callable[[In], Any], items: Iterable[In], *, limit: int = 50) -> list[Any]: ...
    def all(self, calls: Iterable[tuple[Any, ...]]) -> list[Any]: ...
    def run(self, workflow: Startable[In, R], input: In = ...) -> R: ...
    def start(
        self, workflow: Startable[In, R], input: In = ..., *, detached: bool = False
    ) -> SyncChildHandle[R]: ...
    def now(self) -> datetime: ...
    def random(self) -> float: ...
    def uuid(self) -> uuid.UUID: ...
    def patched(self, change: str) -> bool: ...
    def continue_as_new(self, input: Any = ...) -> Any: ...
    def publish(self, topic: str, data: Any = None) -> None: ...
    def progress(self, done: float, total: float | None = None, text: str = "") -> None: ...
    def save(self, name: str, value: Any) -> None: ...
    @overload
    def document(self, name: str) -> Any: ...
    @overload
    def document(self, name: str, type: type[T]) -> T: ...
    def document(self, name: str, type: Any = Any) -> Any: ...
