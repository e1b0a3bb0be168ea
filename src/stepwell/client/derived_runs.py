"""History: the verbs that make new runs from old ones, and carry runs from one database to another.

    rerun        a new run from the start, with the same input or another
    rerun_from   a new run that takes over what was recorded before a step, and does the rest again
    fork         a new run from a place in the log, with edited results, input or state
    export       a run as one file; import_run brings it back

The old run is only read: its log is the same byte by byte afterwards.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec
from msgspec.structs import replace

from stepwell.client import run_file
from stepwell.client.handle import RunHandle
from stepwell.domain import events as ev
from stepwell.domain.codec import PLAIN, encoded_by_type, limited
from stepwell.domain.commit import Definition, Started
from stepwell.domain.fork.fork import ForkIdentity, fork_run
from stepwell.domain.fork.prefix import Edits, seq_before
from stepwell.domain.fork.run_copy import RunCopy
from stepwell.domain.ids import Ids, RunId
from stepwell.domain.text import checked_text
from stepwell.errors import (
    InvalidInput,
    KeyConflict,
    RunExists,
    RunNotFound,
    StepwellError,
    UnknownWorkflow,
    excerpt,
)

if TYPE_CHECKING:
    from stepwell.store.base import Store
    from stepwell.store.wakeups import Notifier

R = TypeVar("R")
T = TypeVar("T")

UNCHANGED: Any = object()


class History:
    """Part of the client."""

    notifier: Notifier
    workspace: str
    payload_bytes_max: int
    _ids: Ids

    @property
    def store(self) -> Store:
        raise NotImplementedError

    async def insist(self, ask: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        raise NotImplementedError

    def _checked(self, definition: Definition, input: Any) -> bytes:
        raise NotImplementedError

    @overload
    async def rerun(
        self, run: RunHandle[R], *, input: Any = ..., version: str = "", key: str = ""
    ) -> RunHandle[R]: ...
    @overload
    async def rerun(
        self, run: str, *, input: Any = ..., version: str = "", key: str = ""
    ) -> RunHandle[Any]: ...
    async def rerun(
        self, run: RunHandle[Any] | str, *, input: Any = UNCHANGED, version: str = "", key: str = ""
    ) -> RunHandle[Any]:
        """A new run from the start: same input and version, or those given."""
        old = await self._read(run)
        if version and version != old.version:
            old = await self._with_version(old, version)
        edits = Edits(input=await self._encoded_input(old, input))
        return await self._fork(run, old, ev.Origin(how="rerun", run=old.id, seq=1), edits, key)

    @overload
    async def rerun_from(
        self, run: RunHandle[R], step: str, *, outputs: Mapping[str, Any] | None = None, key: str = ""
    ) -> RunHandle[R]: ...
    @overload
    async def rerun_from(
        self, run: str, step: str, *, outputs: Mapping[str, Any] | None = None, key: str = ""
    ) -> RunHandle[Any]: ...
    async def rerun_from(
        self,
        run: RunHandle[Any] | str,
        step: str,
        *,
        outputs: Mapping[str, Any] | None = None,
        key: str = "",
    ) -> RunHandle[Any]:
        """A new run that has all results from before that step, and does it and what follows again.

        `step` is a path, or the name of a step that the run has once.
        """
        old = await self._read(run)
        with _about(old.id):
            place = seq_before([ev.read(row) for row in old.log], step)
        edits = Edits(outputs=self._encoded_outputs(outputs))
        return await self._fork(run, old, ev.Origin(how="rerun_from", run=old.id, seq=place), edits, key)

    @overload
    async def fork(
        self,
        run: RunHandle[R],
        *,
        at: int,
        input: Any = ...,
        state: Any = ...,
        outputs: Mapping[str, Any] | None = None,
        key: str = "",
    ) -> RunHandle[R]: ...
    @overload
    async def fork(
        self,
        run: str,
        *,
        at: int,
        input: Any = ...,
        state: Any = ...,
        outputs: Mapping[str, Any] | None = None,
        key: str = "",
    ) -> RunHandle[Any]: ...
    async def fork(
        self,
        run: RunHandle[Any] | str,
        *,
        at: int,
        input: Any = UNCHANGED,
        state: Any = UNCHANGED,
        outputs: Mapping[str, Any] | None = None,
        key: str = "",
    ) -> RunHandle[Any]:
        """A new run that begins as the old one was at event `at`, but for what is edited.

        `outputs` replaces what steps, children and waits gave, by path; `state` is a machine's. Of a graph,
        what depends on an edited output (by node) is done again, and everything on another input.
        NotForkable says why there is no fork at that place, and where there is one.
        """
        old = await self._read(run)
        edits = await self._edits(old, input, state, outputs)
        return await self._fork(run, old, ev.Origin(how="fork", run=old.id, seq=at), edits, key)

    async def _edits(self, old: RunCopy, input: Any, state: Any, outputs: Mapping[str, Any] | None) -> Edits:
        return Edits(
            input=await self._encoded_input(old, input),
            state=await self._encoded_state(old, state),
            outputs=self._encoded_outputs(outputs),
        )

    async def _read(self, run: RunHandle[Any] | str) -> RunCopy:
        run_id = id_of(run)
        copies = await self.store.read_tree(run_id, children=False)
        if not copies:
            raise RunNotFound(f"there is no run {run_id}")
        return copies[0]

    async def _with_version(self, old: RunCopy, version: str) -> RunCopy:
        definition = await self.store.read_definition(self.workspace, old.workflow, version)
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
        definition = await self.store.read_definition(self.workspace, old.workflow, old.version)
        return data if definition is None else self._checked(definition, PLAIN.decode(data))

    async def _encoded_state(self, old: RunCopy, state: Any) -> bytes | None:
        if state is UNCHANGED:
            return None
        data = self._limited(state, "the edited state")
        definition = await self.store.read_definition(self.workspace, old.workflow, old.version)
        body: dict[str, Any] = {} if definition is None else msgspec.json.decode(definition.body)
        if definition is None or "state" not in body:
            return data
        schema = msgspec.json.encode(body["state"])
        return self._checked(replace(definition, input_schema=schema), PLAIN.decode(data))

    def _encoded_outputs(self, outputs: Mapping[str, Any] | None) -> dict[str, bytes]:
        known = outputs is None or isinstance(outputs, Mapping)
        if not known or any(not isinstance(path, str) for path in outputs or ()):
            raise InvalidInput(
                f"outputs are {excerpt(outputs)}", hint='by path: outputs={"0/charge#1": {...}}'
            )
        return {
            path: self._limited(value, f"the output of {path}") for path, value in (outputs or {}).items()
        }

    def _limited(self, value: Any, what: str) -> bytes:
        return limited(encoded_by_type(value), what, self.payload_bytes_max)

    async def _fork(
        self, run: RunHandle[Any] | str, old: RunCopy, origin: ev.Origin, edits: Edits, key: str
    ) -> RunHandle[Any]:
        run_id = self._ids.run_id()
        identity = ForkIdentity(run_id, checked_text(key, "key"), self._ids.token(), await self.store.now())
        with _about(old.id):
            new = fork_run(old, origin, edits, identity)
        [started], _ = await self.insist(lambda: self.store.restore([new]))
        if started.conflict:
            raise KeyConflict(
                f"key {excerpt(key)} belongs to run {started.run_id}, which is not this {origin.how}",
                key=key,
                run=started.run_id,
            )
        self.notifier.work()
        decode = PLAIN.decode if isinstance(run, str) else run._decode
        return RunHandle(self, started.run_id, decode)  # type: ignore[arg-type]  # we are the client

    # Files

    async def export(self, run: RunHandle[Any] | str, *, children: bool = True) -> bytes:
        """The run, and with `children` all below it, as one JSON file.

        A run that moves is caught at one moment: in the copy a step that was under way begins again.
        """
        run_id = id_of(run)
        copies = await self.store.read_tree(run_id, children=children)
        if not copies:
            raise RunNotFound(f"there is no run {run_id}")
        return run_file.written(copies)

    async def import_run(self, file: bytes | str) -> RunHandle[Any]:
        """Bring exported runs back under their own ids; those that had not ended go on.

        Nothing is written when the file is wrong (InvalidFile) or one of the runs exists (RunExists).
        """
        copies = [replace(copy, workspace=self.workspace) for copy in run_file.read(file)]
        answers, repeated = await self.insist(lambda: self.store.restore(copies))
        ours = repeated and not any(answer.conflict for answer in answers)
        if not ours and not all(answer.created for answer in answers):
            await self._refuse_import(copies, answers)
        for copy in copies:
            self.notifier.watch(copy.id).ended = None  # as it was before it was removed here
        self.notifier.work()
        return RunHandle(self, copies[0].id, PLAIN.decode)  # type: ignore[arg-type]  # as above

    async def _refuse_import(self, copies: list[RunCopy], answers: Sequence[Started]) -> None:
        for copy, answer in zip(copies, answers, strict=True):
            if answer.run_id != copy.id:
                raise RunExists(
                    f"the key {excerpt(copy.key)} of run {copy.id} belongs to run {answer.run_id} here",
                    hint="delete that run first; nothing was imported",
                )
            if await self.store.read_run(copy.id) is not None:
                raise RunExists(f"run {copy.id} exists")
        raise RunExists("one of the runs existed while it was imported", hint="try again")


@contextmanager
def _about(run: RunId) -> Iterator[None]:
    """Whoever refuses does not know which run it is about."""
    try:
        yield
    except StepwellError as error:
        error.context = {"run": run, **error.context}
        raise


def id_of(run: RunHandle[Any] | str) -> RunId:
    if not isinstance(run, str | RunHandle):
        raise InvalidInput(f"{excerpt(run)} is no run", hint="give the handle of a run, or its id")
    return RunId(checked_text(run, "run id") if isinstance(run, str) else run.id)
