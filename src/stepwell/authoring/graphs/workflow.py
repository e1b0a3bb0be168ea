"""GraphWorkflow: a graph as a workflow, started, run and called like any other.

GraphTools is what one engine does with graphs: check them, make workflows of them, trace and rerun
their runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from stepwell.authoring.graphs.build.code_checks import codes_in
from stepwell.authoring.graphs.build.plan import GraphPlan
from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.authoring.graphs.build.triggers import declared_by
from stepwell.authoring.graphs.format.content_hash import content_hash, version_hash
from stepwell.authoring.graphs.format.definition import GraphTimeouts
from stepwell.authoring.graphs.format.diff import diff
from stepwell.authoring.graphs.format.json_schema import graph_schema
from stepwell.authoring.graphs.history.trace import GraphTrace, trace
from stepwell.authoring.graphs.nodes.registry import NodeRegistry
from stepwell.authoring.graphs.problems import GraphProblem
from stepwell.authoring.graphs.run.driver import Driver
from stepwell.domain.codec import PLAIN, canonical
from stepwell.domain.commit import Definition
from stepwell.domain.events import Event, Origin
from stepwell.domain.fork.prefix import Edits
from stepwell.domain.fork.run_copy import RunCopy
from stepwell.domain.program import RunOptions
from stepwell.domain.schema import Schema
from stepwell.domain.steps import StepSpec, checked_name
from stepwell.domain.triggers.declared import DeclaredTrigger
from stepwell.errors import InvalidDefinition, excerpt, shortened
from stepwell.providers.provider import Providers
from stepwell.sandbox.syntax import faults_of

T = TypeVar("T")
_encode = msgspec.json.Encoder(order="deterministic").encode
_CACHED_MAX = 256
_LARGE = 32 * 1024  # bytes of JSON; checking this much takes as long as a few requests
ReadDefinition = Callable[[str, str], Awaitable[Definition | None]]  # by name and version


class GraphWorkflow:
    """A checked graph. Its version is a hash of its content; the positions of nodes do not count."""

    sync = False
    stepwell_graph = True  # recognises graphs without importing this module

    def __init__(self, plan: GraphPlan, *, name: str = "", version: str = "", queue: str = "default") -> None:
        self.plan = plan
        name = checked_name(name or plan.name or "graph")
        limit = plan.settings.max_execution_ms
        self.options = RunOptions(
            timeout=None if limit is None else limit / 1000,
            queue=queue,
            concurrency=plan.settings.concurrency,
        )
        self.definition = Definition(
            name=name,
            version=checked_name(version or plan.hash[:12]),
            kind="graph",
            hash=plan.hash,
            body=_encode(plan.definition.as_dict()),
            input_schema=_encode(plan.input_schema),
            options=_encode(
                {
                    "timeout": self.options.timeout,
                    "queue": queue,
                    "priority": 0,
                    "concurrency": self.options.concurrency,
                }
            ),
            title=plan.definition.title,
            description=plan.definition.description,
        )
        self._has_own_version = not version
        self._schema: Schema | None = None

    @property
    def triggers(self) -> tuple[DeclaredTrigger, ...]:
        """Return the triggers that the graph declares."""
        return declared_by(self.plan.definition)

    @property
    def former_versions(self) -> tuple[str, ...]:
        """The version under which earlier releases started it: such a run may lack its definition."""
        former = content_hash(self.plan.definition.as_dict())[:12]
        return (former,) if self._has_own_version else ()

    def encode_input(self, input: Any) -> bytes:
        data = PLAIN.encode({} if input is None else input)
        if self.plan.input_schema is not True:
            self._check(msgspec.json.decode(data))
        return data

    def canonical_input(self, input: Any) -> bytes:
        return canonical(PLAIN, {} if input is None else input)

    def _check(self, input: Any) -> None:
        if self._schema is None:
            self._schema = Schema(self.plan.input_schema)
        self._schema.check(input, workflow=self.definition.name)

    def decode_result(self, data: bytes) -> Any:
        return PLAIN.decode(data)

    def run(self, ctx: Any, input: bytes) -> Any:
        return self._run(ctx, input)

    async def _run(self, ctx: Any, input: bytes) -> bytes:
        output = await Driver(self.plan, ctx).run(PLAIN.decode(input))
        return PLAIN.encode(output)

    def __repr__(self) -> str:
        return f"<graph {self.definition.name} version {self.definition.version}>"


def graph(source: Any, *, builder: PlanBuilder | None = None, **options: Any) -> GraphWorkflow:
    """A workflow from a graph: its JSON, a file, or a GraphBuilder."""
    return GraphWorkflow((builder or PlanBuilder()).build(_body(source)), **options)


async def _beside_the_loop(body: Any, work: Callable[[], T]) -> T:
    """Run slow work on a large graph in a thread, so that the event loop stays responsive."""
    return await asyncio.to_thread(work) if _is_large(body) else work()


def _is_large(body: Any) -> bool:
    try:
        return len(msgspec.json.encode(body)) >= _LARGE
    except Exception:  # the check refuses what is not JSON, and says where
        return False


class GraphTools:
    def __init__(
        self,
        nodes: Iterable[Any],
        steps: Mapping[str, StepSpec],
        timeouts: GraphTimeouts | None = None,
        providers: Callable[[], Providers] | None = None,
    ) -> None:
        self.registry = NodeRegistry.installed(nodes)
        self._builder = PlanBuilder(self.registry, steps, timeouts=timeouts, providers=providers)
        self._stored = PlanBuilder(self.registry, steps, stored=True, timeouts=timeouts)
        # For readers of a run: they do not need the steps that the graph calls.
        self._lenient = PlanBuilder(self.registry, stored=True)
        self._steps = steps
        self._programs: dict[str, GraphWorkflow] = {}  # of runs that carry their graph, by its hash

    def check(self, source: Any) -> list[GraphProblem]:
        """All problems of a graph; if there are none, it can run."""
        return self._builder.check(_body(source))

    def warnings(self, source: Any) -> list[GraphProblem]:
        """Settings that have no effect, or probably not the intended one. The graph still runs.

        A graph with problems has no warnings: see `check`.
        """
        plan, _ = self._builder.examine(_body(source))
        return [] if plan is None else list(plan.warnings)

    async def checked(self, source: Any, **options: Any) -> GraphWorkflow:
        """Check a graph and return it as a workflow, as `workflow` does.

        Its code is parsed in a sandbox, and a large graph is checked in a thread.
        """
        body = _body(source)
        if codes := list(codes_in(body)):
            await asyncio.to_thread(faults_of, codes)
        return await _beside_the_loop(body, partial(self.workflow, body, **options))

    async def warned(self, source: Any) -> list[GraphProblem]:
        """Return the warnings of a graph; a large one is checked in a thread."""
        body = _body(source)
        return await _beside_the_loop(body, partial(self.warnings, body))

    async def compared(self, old: Any, new: Any) -> dict[str, Any]:
        """Return the changes from one graph to another; large ones are compared in a thread."""
        return await _beside_the_loop([old, new], partial(self.diff, old, new))

    def workflow(self, source: Any, *, stored: bool = False, **options: Any) -> GraphWorkflow:
        """A graph as a workflow; `stored` if it was saved before."""
        return graph(source, builder=self._stored if stored else self._builder, **options)

    def from_run(self, body: bytes) -> GraphWorkflow:
        """The program of a run that carries its graph."""
        plan = self._stored.build(msgspec.json.decode(body))
        program = self._programs.get(plan.hash)
        if program is None:
            if len(self._programs) >= _CACHED_MAX:
                self._programs.clear()
            program = self._programs[plan.hash] = GraphWorkflow(plan)
        return program

    def diff(self, old: Any, new: Any) -> dict[str, Any]:
        """The changes from one graph to another; neither needs to be valid."""
        return diff(_body(old), _body(new))

    def content_hash(self, body: Any) -> str:
        """A hash of everything that is saved of a graph."""
        return content_hash(body)

    def version_hash(self, body: Any) -> str:
        """A hash of what the runs of a saved graph depend on."""
        return version_hash(body)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of graphs with this engine's node types."""
        return graph_schema(self.registry)

    # Runs

    def trace(self, run_id: str, log: list[Event], body: bytes) -> GraphTrace:
        return trace(self._lenient.build(msgspec.json.decode(body)), run_id, log)

    def rerun_edits(self, run_id: str, log: list[Event], body: bytes, node: str) -> Edits:
        """What a new run leaves out of the old one's log to run a node again."""
        from stepwell.authoring.graphs.history.rerun import rerun_edits

        plan = self._lenient.build(msgspec.json.decode(body))
        return rerun_edits(plan, trace(plan, run_id, log), log, node)

    def output_edits(self, run_id: str, log: list[Event], body: bytes, outputs: Mapping[str, Any]) -> Edits:
        """What a new run takes from the old one if these outputs of nodes are edited."""
        from stepwell.authoring.graphs.history.rerun import output_edits

        return output_edits(self.trace(run_id, log, body), log, self.registry, outputs)

    def replayable_edits(self, body: bytes, old: RunCopy, origin: Origin, edits: Edits) -> Edits:
        """The edits, without recorded answers that the new run would never ask for."""
        from stepwell.authoring.graphs.history.rerun import replayable_edits

        return replayable_edits(self._lenient.build(msgspec.json.decode(body)), old, origin, edits)


# Files


def _body(source: Any) -> Any:
    return source.as_dict() if hasattr(source, "as_dict") else read_graph(source)


def read_graph(source: Any) -> Any:
    """The JSON of a graph: itself, or from a .json, .yaml or .yml file."""
    if not isinstance(source, str | Path):
        return source
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # ValueError: not a valid path, or not text
        why = error.strerror if isinstance(error, OSError) else _not_text(error)
        raise InvalidDefinition(
            f"{_printable(path)} cannot be read: {why}", hint="name the .json or .yaml file of a graph"
        ) from None
    if path.suffix in (".yaml", ".yml"):
        from stepwell.authoring.graphs.format.yaml import read_yaml

        return read_yaml(text)
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidDefinition(f"{_printable(path)} is not JSON: {error}") from None


def _printable(path: Path) -> str:
    return shortened(str(path)) if str(path).isprintable() else excerpt(str(path))


def _not_text(error: ValueError) -> str:
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else "no file can have this name"
