"""The step that sends one request to a model. Its function is in `handlers/ai.py`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from stepwell.domain.conversation import ANSWER, STEP
from stepwell.domain.retry import Retry
from stepwell.domain.steps import StepSpec, parameter_codecs
from stepwell.errors import StepNotBegun

_LATE = 5.0  # added to the step's timeout: the request times out earlier


def model_step(*, retry: Retry, seconds: float, queue: str = "") -> StepSpec:
    """Return the step; `seconds` is the timeout of one request."""
    return StepSpec(
        name=STEP,
        function=_without_worker,
        retry=retry,
        timeout=seconds + _LATE,
        queue=queue,
        is_async=True,
        wants_context=True,
        provided=True,
    )


async def _without_worker(*args: Any) -> None:
    """Stand in for the function of the worker: raise, because there is none."""
    error = StepNotBegun("this run has no worker that asks models", hint="run it with an Engine")
    error.permanent = True
    raise error


def object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with `type: object` at its top level, where providers want to see it."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    definitions = schema.get("$defs", {})
    if name and name in definitions:
        return {**definitions[name], "$defs": definitions}
    return dict(schema)


def input_schema(spec: StepSpec) -> dict[str, Any]:
    """Return the schema of a step's input as a tool. Parameters with a default are optional."""
    parameters = inspect.signature(inspect.unwrap(spec.function)).parameters
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for name, codec in parameter_codecs(spec).items():
        schema = codec.schema()
        if isinstance(schema, dict):
            definitions |= schema.get("$defs", {})
            schema = {key: part for key, part in schema.items() if key not in ("$defs", "$schema")}
        properties[name] = schema
    required = [name for name in properties if parameters[name].default is inspect.Parameter.empty]
    known = {"$defs": definitions} if definitions else {}
    return {"type": "object", "properties": properties, "required": required, **known}


def tool_name_fault(name: str) -> str:
    """Return why a tool cannot have this name, or ''."""
    return f"the name {ANSWER} is taken: by it the model gives its answer" if name == ANSWER else ""
