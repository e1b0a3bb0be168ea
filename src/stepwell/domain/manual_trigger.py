"""The trigger `manual`: a person starts the run, with the form and the input that a graph has for it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Raw

MANUAL_KNOWN = ("form",)  # what an input may name
MANUAL = "manual"  # also what a run that was started by hand has as its trigger


class _Trigger(msgspec.Struct):
    type: str = ""
    form: Raw = Raw(b"null")
    input: Raw = Raw(b"{}")


class _Graph(msgspec.Struct):
    triggers: list[_Trigger] = []


_decode = msgspec.json.Decoder(_Graph).decode


class ManualTrigger(NamedTuple):
    """How a person starts a graph: what is asked, and what the run gets of it."""

    form: bytes | None = None  # JSON Schema; None: that of the input
    input: bytes | None = None  # its texts may name {{trigger.form.order}}; None: what was filled in


def manual_trigger_of(graph: bytes) -> ManualTrigger:
    """The manual trigger of this graph; one that asks for the input if it has none."""
    if b'"triggers"' not in graph:
        return ManualTrigger()
    manual = next((each for each in _decode(graph).triggers if each.type == MANUAL), _Trigger())
    form, input = bytes(manual.form), bytes(manual.input)
    return ManualTrigger(None if form == b"null" else form, None if input in (b"{}", b"null") else input)
