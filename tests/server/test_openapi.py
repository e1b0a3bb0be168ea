"""The OpenAPI document and the server agree: generated requests, right and wrong ones, for each operation."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from stepwell.server.app import asgi
from stepwell.server.table import Route
from tests.effort import choose, rotating
from tests.engines import Engines, suspended
from tests.server.served import BEARER, FLOWS, served

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.generation import GenerationMode
    from schemathesis.specs.openapi import checks as conformance

EXAMPLES = choose(quick=3, change=40, all=100)  # of each operation and mode
ENDLESS = ("stream", "stream_run")  # tests/server/test_streams.py has them
CHECKS = [
    not_a_server_error,
    conformance.status_code_conformance,
    conformance.content_type_conformance,
    conformance.response_headers_conformance,
    conformance.response_schema_conformance,
    conformance.negative_data_rejection,
]


class Fuzzed(NamedTuple):
    """A server in a thread of its own, and ids that are there."""

    url: str
    document: dict[str, Any]
    table: tuple[Route, ...]
    names: dict[str, list[str]]  # by path parameter


@contextmanager
def serving(engines: Engines) -> Iterator[Fuzzed]:
    ready: list[Fuzzed] = []
    begun, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async with served(engines.new(*FLOWS)) as client:
            runs = [await client.started("doubling", 1), await client.started("failing", "x")]
            waiting = await client.started("asking", "x")
            for run in runs:
                await client.ended(run)
            engine = client.app.state.engine
            await suspended(engine.handle(waiting))
            key = await engine.keys.create("ann")
            graph = {
                "nodes": [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}],
                "edges": [{"source": "start", "target": "end"}],
            }
            await engine.library.create(graph, name="hello")
            await engine.records.define("people", find=["city"])
            record = await engine.records.create("people", {"city": "Rome"})
            names = {
                "collection": ["people"],
                "record_id": [record.id],
                "run_id": [*runs, waiting],
                "key_id": [key.credential.id],
                "name": ["doubling", "hello"],
            }
            ready.append(Fuzzed(client.url, client.app.openapi(), client.app.table, names))
            begun.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert begun.wait(60)
    try:
        yield ready[0]
    finally:
        stop.set()
        thread.join(60)


def checks_of(operation: Any) -> list[Any]:
    """Any text fits a list of free texts in an address: `?role=true` is not wrong there."""
    schemas = [parameter.get("schema", {}) for parameter in operation.definition.raw.get("parameters", ())]
    lists = [kind for schema in schemas for kind in schema.get("anyOf", ()) if kind.get("type") == "array"]
    free = any(kind["items"] == {"type": "string"} for kind in lists)
    return [check for check in CHECKS if not free or check is not conformance.negative_data_rejection]


def fuzz(server: Fuzzed, operation: Any, mode: GenerationMode) -> None:
    """Send generated requests for one operation; half of them name something that exists."""
    strategy = operation.as_strategy(generation_mode=mode)
    checks = checks_of(operation)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy, data=st.data())
    def check(case: Any, data: st.DataObject) -> None:
        for name in case.path_parameters or {}:
            if name in server.names and data.draw(st.booleans()):
                case.path_parameters[name] = data.draw(st.sampled_from(server.names[name]))
        if case.query:
            case.query.pop("wait", None)  # it would wait
        answer = case.call(base_url=server.url, headers=BEARER, timeout=60)
        case.validate_response(answer, checks=checks)

    check()


def without_security(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document for a caller that is always known; tests/server/test_matrix.py has the others."""
    paths = {
        path: {method: {**operation, "security": []} for method, operation in operations.items()}
        for path, operations in document["paths"].items()
    }
    return {**document, "paths": paths}


@pytest.mark.slow
@pytest.mark.req("A1", "X9")
@pytest.mark.filterwarnings("ignore")
def test_generated_requests_get_the_answers_that_the_document_names(memory_engines: Engines) -> None:
    problems: dict[str, BaseException] = {}
    with serving(memory_engines) as server:
        schema = schemathesis.openapi.from_dict(without_security(server.document))
        results: list[Any] = list(schema.get_all_operations())
        operations = [result.ok() for result in results]
        for operation in rotating(operations):
            name = operation.definition.raw["operationId"]
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                if name in ENDLESS:
                    continue
                try:
                    fuzz(server, operation, mode)
                except Unsatisfiable:
                    assert mode is GenerationMode.NEGATIVE  # nothing can be wrong with it
                except (Exception, BaseExceptionGroup) as error:
                    problems[f"{name} {mode}"] = error

    assert not problems, "\n\n".join(f"{name}: {error}" for name, error in problems.items())
    assert {operation.definition.raw["operationId"] for operation in operations} == {
        row.name for row in server.table if row.method != "WEBSOCKET"
    }


def test_every_body_has_an_example(memory_engines: Engines) -> None:
    document = asgi(memory_engines.client()).openapi()
    without = [
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
        for content in [operation.get("requestBody", {}).get("content", {}).get("application/json")]
        if content is not None and "example" not in content
    ]

    assert without == []
