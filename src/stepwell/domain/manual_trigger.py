"""The trigger `manual`: a person starts the run with a form, from which the graph builds the input."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Raw

MANUAL_KNOWN = ("form",)  # the names that an input may refer to
MANUAL = "manual"  # also the `trigger` of a run that was started by hand


class _Trigger(msgspec.Struct):
    type: str = ""
    form: Raw = Raw(b"null")
    input: Raw = Raw(b"{}")


class _Graph(msgspec.Struct):
    triggers: list[_Trigger] = []


_decode = msgspec.json.Decoder(_Graph).decode


class ManualTrigger(NamedTuple):
    """How a person starts a graph: the form, and the input that follows from it."""

    form: bytes | None = None  # JSON Schema of the form; None: the schema of the input
    input: bytes | None = None  # strings may contain {{trigger.form.order}}; None: the form as filled in


def manual_trigger_of(graph: bytes) -> ManualTrigger:
    """Return the manual trigger of this graph; without one, a trigger that asks for the input."""
    if b'"triggers"' not in graph:
        return ManualTrigger()
    manual = next((each for each in _decode(graph).triggers if each.type == MANUAL), _Trigger())
    form, input = bytes(manual.form), bytes(manual.input)
    return ManualTrigger(None if form == b"null" else form, None if input in (b"{}", b"null") else input)
