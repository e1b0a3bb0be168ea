"""Variables of a waiting graph run, as a person sets them."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Raw

from stepwell.client.run_trace import ReadGraph, folded_graph
from stepwell.client.store_access import StoreAccess
from stepwell.domain.codec import encoded_by_type, limited
from stepwell.domain.commit import Message, RunRow
from stepwell.domain.events import Accepted, Claimed, Event, LeaseLost, Resumed, Suspended, VariableSet
from stepwell.domain.ids import RunId
from stepwell.domain.messages import VARIABLE, VariableRequest
from stepwell.domain.status import Status
from stepwell.domain.text import checked_text, clean
from stepwell.errors import InvalidInput, NotSettable, RunEnded, excerpt

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_WAKING = (Claimed, LeaseLost, Resumed, VariableSet)
_NAMED_MAX = 20  # variables that an error names
# Names that cannot be set, and what to do instead.
_TAKEN = {
    "input": "fork the run with another input: client.fork(run.id, at=..., input=...)",
    "error": "the engine writes it when a node fails",
    "ctx": "choose the name of a variable, without `ctx.`",
    "secrets": "secrets are not variables",
}


def message(
    client: StoreAccess, run_id: RunId, name: str, value: Any, *, id: str, by: str, reason: str
) -> Message:
    """Return the message that sets a variable. Refuses names and values that no variable can have."""
    _check_name(name)
    data = limited(encoded_by_type(value), f"variable {name}", client.payload_bytes_max)
    asked = VariableRequest(name=name, value=Raw(data), by=checked_text(by, "by"), reason=clean(reason))
    key = f"{VARIABLE}/{checked_text(id, 'id') or client.token()}"
    return Message(run_id=run_id, key=key, kind=VARIABLE, payload=msgspec.json.encode(asked), by=by)


def was_set(log: list[Event], key: str) -> bool:
    """Whether the run has taken the message with this key: it may work, or have ended, since."""
    return any(isinstance(event.fact, VariableSet) and event.fact.key == key for event in log)


def check_waits(row: RunRow, log: list[Event]) -> None:
    """Refuse a run that is not a graph, has ended, or is working."""
    if row.kind != "graph":
        raise NotSettable(
            f"run {row.id} is a {row.kind}, not a graph",
            hint="send it a signal; or fork it with other results or another state",
        )
    if row.status.terminal:
        raise RunEnded(f"run {row.id} has ended; its variables cannot be set")
    if row.status is not Status.SUSPENDED and not row.held and not _was_only_woken(log):
        raise NotSettable(f"run {row.id} is {row.status}: it does not wait")


def _was_only_woken(log: list[Event]) -> bool:
    """Return whether the run has only taken in messages since it was suspended, and will wait again."""
    facts = (event.fact for event in reversed(log))
    last = next((fact for fact in facts if not isinstance(fact, _WAKING)), None)
    return isinstance(last, Suspended) and not last.held


async def check_known(run_id: RunId, name: str, log: list[Event], graph: ReadGraph) -> None:
    """Refuse a variable that the run's graph does not know."""
    accepted = log[0].fact
    assert isinstance(accepted, Accepted)
    folding = await folded_graph(run_id, log, await graph(accepted))
    names = folding.names() - _TAKEN.keys()
    if name not in names:
        raise NotSettable(
            f"the graph of run {run_id} neither reads nor writes a variable {name}",
            hint="set one of its variables",
            variables=", ".join(sorted(names)[:_NAMED_MAX]) or "none",
        )


def _check_name(name: object) -> None:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None or name.startswith("__"):
        hint = "give a name of letters, digits and underscores, such as amount"
        raise InvalidInput(f"the name is {excerpt(name)}", hint=hint, field="name")
    if name in _TAKEN:
        raise InvalidInput(f"{name} is not a variable that can be set", hint=_TAKEN[name], field="name")
