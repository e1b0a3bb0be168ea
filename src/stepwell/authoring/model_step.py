"""The step that asks a model once, for workflows; a worker has its function (`handlers/ai.py`)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from stepwell.domain.conversation import ANSWER, STEP
from stepwell.domain.retry import Retry
from stepwell.domain.steps import StepSpec, parameter_codecs
from stepwell.errors import StepNotBegun

_LATE = 5.0  # the step's own timeout: the request ends before


def model_step(*, retry: Retry, seconds: float, queue: str = "") -> StepSpec:
    """Return the step; `seconds` is how long one request may take."""
    return StepSpec(
        name=STEP,
        function=_unserved,
        retry=retry,
        timeout=seconds + _LATE,
        queue=queue,
        is_async=True,
        wants_context=True,
        provided=True,
    )


async def _unserved(*args: Any) -> None:
    """Stand for the function that the worker provides."""
    error = StepNotBegun("this run has no worker that asks models", hint="run it with an Engine")
    error.permanent = True
    raise error


def object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema with its top level written out: providers want to see `type: object` there."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    definitions = schema.get("$defs", {})
    if name and name in definitions:
        return {**definitions[name], "$defs": definitions}
    return dict(schema)


def input_schema(spec: StepSpec) -> dict[str, Any]:
    """The input of a step as a tool: an object with its parameters; those with a default may be left out."""
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
    """Why a tool cannot have this name; '' if it can."""
    return f"the name {ANSWER} is taken: by it the model gives its answer" if name == ANSWER else ""
