"""PathContext: calls at paths that the program names itself, answered through callbacks.

For programs that keep their own state (graphs): no task, no counting of names. The rest is as for
workflow code: answers come in log order, one a turn, and a replay asks for the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.codec import PLAIN
from stepwell.domain.commit import NewEvent
from stepwell.domain.program import Startable
from stepwell.domain.steps import StepSpec
from stepwell.engine.run.answers import result_path
from stepwell.engine.run.calls import ChildCall, PollCall, ResultCall, StepCall, TimerCall, WaitCall
from stepwell.engine.run.children import lookup_step, new_child, stored_workflow
from stepwell.engine.run.log_writer import LogWriter
from stepwell.engine.run.port import Call, RunPort
from stepwell.engine.run.values import time_at

Answered = Callable[["asyncio.Future[Any]"], object]


class FormCodec:
    """A decision in JSON; its schema was checked when the decision was accepted."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = dict(schema)

    def encode(self, value: object) -> bytes:
        return PLAIN.encode(value)

    def decode(self, data: bytes | Raw) -> Any:
        return PLAIN.decode(data)

    def schema(self) -> dict[str, Any] | bool:
        return self._schema


class PathContext:
    def __init__(self, run: RunPort, writer: LogWriter) -> None:
        self._run = run
        self._writer = writer
        self._starts: NewEvent | None = None  # the last drafted event, if it can begin nodes
        self._loop = run.loop
        self._prefix = f"{self._loop.root.path}/"

    @property
    def run_id(self) -> str:
        return self._run.run_id

    @property
    def accepted(self) -> ev.Accepted:
        return self._run.journal.accepted

    def path(self, place: str) -> str:
        return self._prefix + place

    def future(self) -> asyncio.Future[Any]:
        return self._loop.create_future()

    def recorded(self, place: str) -> bool:
        """The log has an answer for this place that was not released yet."""
        return self._prefix + place in self._run.calls.recorded

    # Asking

    def step(
        self, place: str, spec: StepSpec, args: tuple[Any, ...], kwargs: dict[str, Any], answered: Answered
    ) -> Call:
        future: asyncio.Future[Any] = asyncio.Future(loop=self._loop)
        kind = PollCall if spec.polls else StepCall
        call = kind(
            self._prefix + place, future, spec=spec, args=args, kwargs=kwargs, queue=spec.queue, digest=""
        )
        self._run.ask(call).add_done_callback(answered)
        return call

    def attempt(self, call: Call) -> int:
        """How often a step was executed."""
        record = self._run.journal.steps.get(call.path)
        return max(record.attempt if record is not None else 0, call.attempt, 1)

    def timer(self, place: str, seconds: float, answered: Answered, *, retry: bool = False) -> Call:
        return self._asked(
            TimerCall(self._prefix + place, self.future(), seconds=seconds, retry=retry), answered
        )

    def event(self, place: str, name: str, key: str, timeout: float | None, answered: Answered) -> Call:
        return self._wait(place, answered, what="event", name=name, key=key, timeout=timeout, codec=PLAIN)

    def signal(self, place: str, name: str, answered: Answered) -> Call:
        return self._wait(place, answered, what="signal", name=name, timeout=None, codec=PLAIN)

    def question(
        self,
        place: str,
        form: Mapping[str, Any],
        answered: Answered,
        *,
        title: str,
        assignees: tuple[str, ...],
        timeout: float | None,
        required: int = 1,
        bar_starter: bool = False,
    ) -> Call:
        return self._wait(
            place,
            answered,
            what="approval",
            name=place,
            timeout=timeout,
            codec=FormCodec(form),
            title=title,
            assignees=assignees,
            required=required,
            bar_starter=bar_starter,
        )

    def _wait(self, place: str, answered: Answered, **details: Any) -> Call:
        return self._asked(WaitCall(self._prefix + place, self.future(), **details), answered)

    def child(
        self,
        place: str,
        workflow: Startable[Any, Any] | None,
        input: Any,
        answered: Answered,
        *,
        detached: bool = False,
    ) -> Call:
        """Start a child; answered with its run id when that is on disk."""
        run, path = self._run, self._prefix + place
        started = path in run.calls.recorded and path not in run.journal.lost
        new = None
        if not started:
            assert workflow is not None
            new = new_child(run, path, workflow, input, detached)
        return self._asked(ChildCall(path, self.future(), new=new, detached=detached), answered)

    def find(self, place: str, name: str, version: str, answered: Answered) -> Call:
        """Look a workflow up in the store; the result is for `found`."""
        spec = lookup_step(self._run.services.store, self._run.run_id)
        return self.step(place, spec, (name, version), {}, answered)

    def looked_up(self, result: Any) -> Startable[Any, Any] | None:
        """The workflow that was looked up; None: there is none."""
        return stored_workflow(result)

    def child_result(self, place: str, answered: Answered) -> Call:
        return self._asked(ResultCall(result_path(self._prefix + place), self.future()), answered)

    def _asked(self, call: Call, answered: Answered) -> Call:
        self._run.ask(call).add_done_callback(answered)
        return call

    def withdraw(self, call: Call) -> None:
        if not call.future.done():
            self._run.withdraw(call)

    def forgo(self, place: str) -> None:
        """Nothing is asked here. An older log may have an answer, from when it was."""
        self._run.calls.withdrawn.add(self._prefix + place)

    def on_variable(self, take: Callable[[str, Raw], None] | None) -> None:
        """Set the callback for variables that a person sets, in log order; None removes it."""
        self._run.calls.on_variable = take

    # Recording

    def started(self, place: str) -> None:
        """Record that a node began, once: a replay records nothing for a node that the log knows.

        The fact that caused it names the node. Nothing waits for this, and it asks for no commit of its
        own.
        """
        run, path = self._run, self._prefix + place
        if run.calls.replaying:
            news = run.journal.news
            if (
                path in run.calls.recorded
                or f"node_started {path}" in news
                or f"node_completed {path}" in news
            ):
                return
        events = self._writer.draft.events
        if events:
            last = events[-1]
            events[-1] = self._starts = ev.starting(last, path, last is not self._starts)
        else:
            events.append(ev.written(ev.NodeStarted(), path))

    def note(self, fact: ev.NodeFact, place: str) -> None:
        """Record a fact once: a replay that passes here again records nothing."""
        path = self._prefix + place
        news = f"{ev.KIND[type(fact)]} {path}"
        journal = self._run.journal
        if news not in journal.news:
            journal.news.add(news)
            self._run.record(fact, path)

    def time(self, place: str) -> float:
        """The time, recorded: a replay sees the same."""
        return time_at(self._run, f"{self._prefix}{place}@now")

    def workflow(self, name: str, version: str) -> Startable[Any, Any] | None:
        """Return a workflow that this worker knows; without a version, the latest.

        None in another workspace than the worker's own: there, only stored workflows may be called.
        """
        services = self._run.services
        if services.workspace not in ("", self._run.journal.accepted.workspace):
            return None
        programs = [
            program
            for program in services.programs.values()
            if program.definition.name == name and version in ("", program.definition.version)
        ]
        if not programs:
            return None
        latest: Any = max(programs, key=lambda program: _order(program.definition.version))
        startable: Startable[Any, Any] = latest
        return startable


def _order(version: str) -> tuple[int, str]:
    return (int(version), "") if version.isdigit() else (-1, version)
