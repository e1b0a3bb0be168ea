"""GraphWorkflow: a graph as a workflow that can be started, run and called like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from stepwell.authoring.graphs.build.plan import GraphPlan
from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.authoring.graphs.format.content_hash import content_hash
from stepwell.authoring.graphs.run.driver import Driver
from stepwell.domain.codec import PLAIN, canonical
from stepwell.domain.commit import Definition
from stepwell.domain.program import RunOptions
from stepwell.domain.schema import Schema
from stepwell.domain.steps import checked_name
from stepwell.errors import InvalidDefinition, excerpt, shortened

_encode = msgspec.json.Encoder(order="deterministic").encode


class GraphWorkflow:
    """A checked graph. Its version is its content; where nodes lie is no part of that."""

    sync = False
    stepwell_graph = True  # a mark for those who look for graphs and do not import them

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
        )
        self._has_own_version = not version
        self._schema: Schema | None = None

    @property
    def former_versions(self) -> tuple[str, ...]:
        """The version that earlier releases gave it: a run may have come without its definition."""
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
        output = await Driver(self.plan, ctx.placed).run(PLAIN.decode(input))
        return PLAIN.encode(output)

    def __repr__(self) -> str:
        return f"<graph {self.definition.name} version {self.definition.version}>"


def read_graph(source: Any) -> Any:
    """The JSON of a graph: itself, or from a .json, .yaml or .yml file."""
    if not isinstance(source, str | Path):
        return source
    path = Path(source)
    try:
        text = path.read_text()
    except (OSError, ValueError) as error:  # ValueError: no path, or no text
        why = error.strerror if isinstance(error, OSError) else _no_text(error)
        raise InvalidDefinition(
            f"{_shown(path)} cannot be read: {why}", hint="name the .json or .yaml file of a graph"
        ) from None
    if path.suffix in (".yaml", ".yml"):
        from stepwell.authoring.graphs.format.yaml import read_yaml

        return read_yaml(text)
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidDefinition(f"{_shown(path)} is no JSON: {error}") from None


def _shown(path: Path) -> str:
    return shortened(str(path)) if str(path).isprintable() else excerpt(str(path))


def _no_text(error: ValueError) -> str:
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else "no file can have this name"


def graph(source: Any, *, builder: PlanBuilder | None = None, **options: Any) -> GraphWorkflow:
    """A workflow from a graph: its JSON, a file, or what the Python builder made."""
    body = source.as_dict() if hasattr(source, "as_dict") else read_graph(source)
    return GraphWorkflow((builder or PlanBuilder()).build(body), **options)
