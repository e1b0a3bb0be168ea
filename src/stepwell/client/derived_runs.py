"""New runs made from old ones, and runs carried from one database to another.

    rerun        a new run from the start, with the same input or another
    rerun_from   a new run that keeps the results recorded before a step, and repeats the rest
    fork         a new run from an event of the log, with edited results, input or state
    export       a run as one file; import_run restores it

The old run is only read: its log stays the same, byte for byte.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Unpack

import msgspec
from msgspec.structs import replace

from stepwell.client import run_file
from stepwell.client.handle import RunHandle
from stepwell.client.options import WhoOptions
from stepwell.client.store_access import StoreAccess
from stepwell.client.workflows import Workflows
from stepwell.domain import events as ev
from stepwell.domain.codec import PLAIN, encoded_by_type, limited
from stepwell.domain.commit import Definition, Started
from stepwell.domain.fork.fork import ForkIdentity, fork_run
from stepwell.domain.fork.prefix import Edits, seq_before
from stepwell.domain.fork.run_copy import RunCopy
from stepwell.domain.ids import RunId
from stepwell.domain.text import checked_text, clean
from stepwell.errors import (
    InvalidInput,
    KeyConflict,
    RunExists,
    RunNotFound,
    StepwellError,
    UnknownWorkflow,
    excerpt,
)

UNCHANGED: Any = object()


class ForkRules(Protocol):
    """What forks of graph runs need beyond the log. A plain client has none, and edits outputs by path."""

    async def edits(self, old: RunCopy, outputs: Mapping[str, Any], *, new_input: bool) -> Edits:
        """Return what the edited outputs, or another input, leave of the old run."""
        ...

    async def fit(self, old: RunCopy, origin: ev.Origin, edits: Edits) -> Edits:
        """Adapt the edits to the event where the new run begins."""
        ...


class DerivedRuns:
    def __init__(self, access: StoreAccess) -> None:
        self._access = access
        self.graph_rules: ForkRules | None = None

    async def rerun(
        self,
        run: RunHandle[Any] | str,
        *,
        input: Any,
        version: str,
        key: str,
        **who: Unpack[WhoOptions],
    ) -> RunHandle[Any]:
        old = await self.read(run)
        if version and version != old.version:
            old = await self._with_version(old, version)
        edits = Edits(input=await self._encoded_input(old, input))
        return await self.start(run, old, ev.Origin(how="rerun", run=old.id, seq=1), edits, key, **who)

    async def rerun_from(
        self,
        run: RunHandle[Any] | str,
        step: str,
        *,
        outputs: Mapping[str, Any] | None,
        key: str,
        **who: Unpack[WhoOptions],
    ) -> RunHandle[Any]:
        old = await self.read(run)
        with _naming_run(old.id):
            place = seq_before([ev.read(row) for row in old.log], step)
        edits = Edits(outputs=self._encoded_outputs(outputs))
        origin = ev.Origin(how="rerun_from", run=old.id, seq=place)
        return await self.start(run, old, origin, edits, key, **who)

    async def fork(
        self,
        run: RunHandle[Any] | str,
        *,
        at: int,
        input: Any,
        state: Any,
        outputs: Mapping[str, Any] | None,
        key: str,
        **who: Unpack[WhoOptions],
    ) -> RunHandle[Any]:
        old = await self.read(run)
        new_input, new_state = await self._encoded_input(old, input), await self._encoded_state(old, state)
        if old.kind == "graph" and self.graph_rules is not None:
            edits = await self.graph_rules.edits(old, outputs or {}, new_input=new_input is not None)
        else:
            edits = Edits(outputs=self._encoded_outputs(outputs))
        edits = dataclasses.replace(edits, input=new_input, state=new_state)
        return await self.start(run, old, ev.Origin(how="fork", run=old.id, seq=at), edits, key, **who)

    async def read(self, run: RunHandle[Any] | str) -> RunCopy:
        run_id = id_of(run)
        return (await self._tree(run_id, children=False))[0]

    async def _tree(self, run_id: RunId, *, children: bool) -> Sequence[RunCopy]:
        copies = await self._access.store.read_tree(run_id, children=children)
        if not copies or copies[0].workspace != self._access.workspace:
            raise RunNotFound(f"there is no run {run_id}")
        return copies

    async def start(
        self,
        run: RunHandle[Any] | str,
        old: RunCopy,
        origin: ev.Origin,
        edits: Edits,
        key: str,
        *,
        by: str = "",
        reason: str = "",
    ) -> RunHandle[Any]:
        """Start the run that begins as `old` was at `origin`, with these edits."""
        access = self._access
        if old.kind == "graph" and self.graph_rules is not None:
            edits = await self.graph_rules.fit(old, origin, edits)
        run_id = access.ids.run_id()
        names = checked_text(by, "by"), clean(reason)
        now = await access.store.now()
        identity = ForkIdentity(run_id, checked_text(key, "key"), access.token(), now, *names)
        with _naming_run(old.id):
            new = fork_run(old, origin, edits, identity)
        [started], _ = await access.retry_call(lambda: access.store.restore([new], starts=True))
        if started.disabled:
            raise await Workflows(access).refusal(new.workflow)
        if started.conflict:
            raise KeyConflict(
                f"key {excerpt(key)} belongs to run {started.run_id}, which is not this {origin.how}",
                key=key,
                run=started.run_id,
            )
        access.notifier.notify_work()
        decode = PLAIN.decode if isinstance(run, str) else run._decode
        return RunHandle(access, started.run_id, decode, ours=True)

    # Edits

    async def _with_version(self, old: RunCopy, version: str) -> RunCopy:
        definition = await self._definition(old.workflow, version)
        if definition is None:
            raise UnknownWorkflow(
                f"no workflow {excerpt(old.workflow)} version {excerpt(version)} is known",
            )
        first = ev.read_as(ev.Accepted, old.log[0])
        accepted = old.log[0]._replace(payload=msgspec.json.encode(replace(first, version=version)))
        return replace(old, version=version, hash=definition.hash, log=[accepted])

    async def _encoded_input(self, old: RunCopy, input: Any) -> bytes | None:
        if input is UNCHANGED:
            return None
        data = self._limited(input, "the edited input")
        definition = await self._definition(old.workflow, old.version)
        return data if definition is None else self._access.encode_checked(definition, PLAIN.decode(data))

    async def _encoded_state(self, old: RunCopy, state: Any) -> bytes | None:
        if state is UNCHANGED:
            return None
        data = self._limited(state, "the edited state")
        definition = await self._definition(old.workflow, old.version)
        body: dict[str, Any] = {} if definition is None else msgspec.json.decode(definition.body)
        if definition is None or "state" not in body:
            return data
        schema = msgspec.json.encode(body["state"])
        return self._access.encode_checked(replace(definition, input_schema=schema), PLAIN.decode(data))

    def _encoded_outputs(self, outputs: Mapping[str, Any] | None) -> dict[str, bytes]:
        is_mapping = outputs is None or isinstance(outputs, Mapping)
        if not is_mapping or any(not isinstance(path, str) for path in outputs or ()):
            raise InvalidInput(
                f"outputs are {excerpt(outputs)}", hint='give them by path: outputs={"0/charge#1": {...}}'
            )
        return {
            path: self._limited(value, f"the output of {path}") for path, value in (outputs or {}).items()
        }

    def _limited(self, value: Any, name: str) -> bytes:
        return limited(encoded_by_type(value), name, self._access.payload_bytes_max)

    async def _definition(self, workflow: str, version: str) -> Definition | None:
        return await self._access.store.read_definition(self._access.workspace, workflow, version)

    # Files

    async def export(self, run: RunHandle[Any] | str, *, children: bool) -> bytes:
        run_id = id_of(run)
        return run_file.write(await self._tree(run_id, children=children))

    async def restore(self, file: bytes | str, *, by: str) -> RunHandle[Any]:
        access = self._access
        checked_text(by, "by")
        copies = [self._moved(copy, by) for copy in run_file.read(file)]
        answers, repeated = await access.retry_call(lambda: access.store.restore(copies))
        ours = repeated and not any(answer.conflict for answer in answers)
        if not ours and not all(answer.created for answer in answers):
            await self._refuse_import(copies, answers)
        for copy in copies:
            access.notifier.watch(copy.id).ended = None  # the run may have ended and been removed here before
        access.notifier.notify_work()
        return RunHandle(access, copies[0].id, PLAIN.decode, ours=True)

    def _moved(self, copy: RunCopy, by: str) -> RunCopy:
        """The run as it begins here: in this workspace. Its log says what started it where it came from."""
        first = ev.read_as(ev.Accepted, copy.log[0])
        if first.workspace != self._access.workspace:
            payload = msgspec.json.encode(replace(first, workspace=self._access.workspace))
            copy = replace(copy, log=[copy.log[0]._replace(payload=payload), *copy.log[1:]])
        if not copy.parent:
            copy = replace(copy, trigger="import", started_by=by or copy.started_by)
        return replace(copy, workspace=self._access.workspace)

    async def _refuse_import(self, copies: list[RunCopy], answers: Sequence[Started]) -> None:
        for copy, answer in zip(copies, answers, strict=True):
            if answer.run_id != copy.id:
                raise RunExists(
                    f"the key {excerpt(copy.key)} of run {copy.id} belongs to run {answer.run_id} here",
                    hint="delete that run first; nothing was imported",
                )
            if await self._access.store.read_run(copy.id) is not None:
                raise RunExists(f"run {copy.id} exists")
        raise RunExists("one of the runs existed during the import", hint="try again")


@contextmanager
def _naming_run(run: RunId) -> Iterator[None]:
    """Add the run id to errors raised by code that doesn't know it."""
    try:
        yield
    except StepwellError as error:
        error.context = {"run": run, **error.context}
        raise


def id_of(run: RunHandle[Any] | str) -> RunId:
    if not isinstance(run, str | RunHandle):
        raise InvalidInput(f"{excerpt(run)} is not a run", hint="give the handle of a run, or its id")
    return RunId(checked_text(run, "run id") if isinstance(run, str) else run.id)
