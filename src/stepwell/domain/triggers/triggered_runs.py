"""TriggeredRuns: builds the runs that triggers start, with inputs that fit their workflows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stepwell.domain.codec import PLAIN, canonical, limited
from stepwell.domain.commit import Definition, NewRun
from stepwell.domain.ids import Ids, RunId
from stepwell.domain.limits import Concurrency
from stepwell.domain.new_run import new_run_of
from stepwell.domain.program import RunOptions
from stepwell.domain.schema import Schema
from stepwell.domain.triggers.input import filled
from stepwell.domain.triggers.trigger import Trigger, TriggerStart

_start = msgspec.json.Decoder(TriggerStart)


def start_of(trigger: Trigger) -> TriggerStart:
    return _start.decode(trigger.start)


class TriggeredRuns:
    """Keeps the schemas of definitions, so that each is read once."""

    def __init__(self, ids: Ids, payload_bytes_max: int) -> None:
        self._ids = ids
        self._payload_bytes_max = payload_bytes_max
        self._schemas: dict[bytes, Schema] = {}

    def build(
        self,
        trigger: Trigger,
        definition: Definition,
        known: Mapping[str, Any],
        *,
        run_id: RunId,
        key: str,
        what: str,
        tag: str,
        by: str,
        concurrency: Concurrency | None = None,
    ) -> NewRun:
        """Return the run that a trigger starts, with `known` filled into its input.

        InvalidInput if the input does not fit the workflow, PayloadTooLarge if it is too large.
        """
        start = start_of(trigger)
        input = filled(msgspec.json.decode(start.input), known, self._payload_bytes_max)
        data = self._checked(definition, input)
        return new_run_of(
            definition,
            msgspec.json.decode(definition.options, type=RunOptions),
            data,
            canonical=canonical(PLAIN, input),
            run_id=run_id,
            key=key,
            seed=self._ids.token(),
            queue=start.queue,
            priority=start.priority,
            timeout=start.timeout,
            tags={**start.tags, tag: trigger.name},
            trigger=what,
            workspace=trigger.workspace,
            graph=definition.body if definition.kind == "graph" else b"",
            concurrency=concurrency,
            by=by,
        )

    def _checked(self, definition: Definition, input: Any) -> bytes:
        schema = definition.input_schema
        if schema not in self._schemas:
            self._schemas[schema] = Schema(schema.decode())
        self._schemas[schema].check(input, workflow=definition.name)
        return limited(PLAIN.encode(input), f"the input of {definition.name}", self._payload_bytes_max)
