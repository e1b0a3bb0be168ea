"""The trigger `manual`: a person starts the run, with the form that a graph has for it."""

from __future__ import annotations

import msgspec
from msgspec import Raw

MANUAL = "manual"  # also what a run that was started by hand has as its trigger


class _Trigger(msgspec.Struct):
    type: str = ""
    form: Raw = Raw(b"null")


class _Graph(msgspec.Struct):
    triggers: list[_Trigger] = []


_decode = msgspec.json.Decoder(_Graph).decode


def form_of(graph: bytes) -> bytes | None:
    """The JSON Schema of the form with which a person starts this graph; None: it has none."""
    if b'"triggers"' not in graph:
        return None
    forms = (bytes(trigger.form) for trigger in _decode(graph).triggers if trigger.type == MANUAL)
    return next((form for form in forms if form != b"null"), None)
