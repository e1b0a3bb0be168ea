"""Selection: the runs that a filter matches, and one verb for each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli import failure
from stepwell.cli.options import By, ErrorWords, OneWorkflow, Reason, Since, Statuses, Tags, Yes, pairs
from stepwell.cli.session import CliSession
from stepwell.errors import InvalidRequest, StepwellError

if TYPE_CHECKING:
    from stepwell.client import Client, RunHandle
    from stepwell.domain.commit import RunRow

_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChoice:
    """Which runs the caller means."""

    workflow: str = ""
    status: Sequence[str] = ()
    since: str = ""
    tag: Sequence[str] = ()
    error: str = ""

    @property
    def given(self) -> bool:
        return bool(self.workflow or self.status or self.since or self.tag or self.error)

    def or_status(self, *words: str) -> RunChoice:
        """Return this choice with a status, if it has other parts and none of its own."""
        return replace(self, status=words) if words and self.given and not self.status else self

    def filter(self) -> dict[str, Any]:
        """Return the choice as keywords for the client."""
        from stepwell.domain.duration import seconds
        from stepwell.system import SystemClock

        options: dict[str, Any] = {
            "workflow": self.workflow,
            "status": list(self.status),
            "error": self.error,
        }
        if self.since:
            options["since"] = SystemClock.time() - seconds(self.since, name="--since")
        if self.tag:
            options["tags"] = {name: str(value) for name, value in pairs("--tag", list(self.tag)).items()}
        return options


async def matching(
    client: Client, choice: RunChoice, limit: int | None = None, **more: Any
) -> AsyncIterator[RunRow]:
    """Read the matching runs in pages, newest first."""
    options, before, left = choice.filter(), "", limit
    while left is None or left > 0:
        size = _PAGE if left is None else min(_PAGE, left)
        page = await client.runs(**options, **more, before=before, limit=size)
        for row in page:
            yield row
        if not page.next:
            return
        before = page.next
        left = None if left is None else left - len(page)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichRuns:
    """Options of the commands for several runs: their ids, or what they have in common."""

    runs: Annotated[
        list[str], typer.Argument(metavar="RUN", help="Ids, beginnings of ids, @last, @failed or @waiting.")
    ] = field(default_factory=list)
    workflow: OneWorkflow = ""
    status: Statuses = field(default_factory=list)
    since: Since = ""
    tag: Tags = field(default_factory=list)
    error: ErrorWords = ""

    @property
    def choice(self) -> RunChoice:
        return RunChoice(
            workflow=self.workflow, status=self.status, since=self.since, tag=self.tag, error=self.error
        )

    def check(self, verb: str) -> None:
        """Refuse a command line that names no runs, or names them in two ways."""
        if self.choice.given == bool(self.runs):
            what = "both runs and a filter" if self.runs else "neither a run nor a filter"
            raise InvalidRequest(
                f"{what} was given",
                hint=f"stepwell runs {verb} RUN, or with a filter: --status failed --since 24h",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsOptions(WhichRuns):
    """Options of the commands that change several runs: which runs, who does it and why."""

    yes: Yes = False
    by: By = ""
    reason: Reason = ""


class Bulk:
    """One verb for the runs that a caller names, or for all that match a filter."""

    def __init__(self, session: CliSession, verb: str, done: str) -> None:
        self._session = session
        self._verb, self._done = verb, done  # "cancel", "cancelled"

    async def act(
        self, asked: RunsOptions, act: Callable[[RunHandle[Any]], Awaitable[str]], *status: str
    ) -> int:
        """Act on the runs of the command line. Of those that match a filter, only on runs in this status."""
        async with self._session.client() as client:
            asked.check(self._verb)
            handles = await self._choose(client, asked.runs, asked.choice.or_status(*status), yes=asked.yes)
            return 0 if handles is None else await self._apply(handles, act)

    async def _choose(
        self, client: Client, runs: Sequence[str], choice: RunChoice, *, yes: bool
    ) -> list[RunHandle[Any]] | None:
        """Return the runs, or None if the person says no. A filter needs a confirmation."""
        if runs:
            return [await self._session.run(client, run) for run in runs]
        ids = [row.id async for row in matching(client, choice)]
        if not ids:
            self._session.out.say("no matching runs")
            return []
        count = "1 run" if len(ids) == 1 else f"{len(ids)} runs"
        question = f"{self._verb.capitalize()} {count} of {self._session.database}?"
        if not self._session.out.confirm(question, yes=yes):
            self._session.out.say("nothing was changed")
            return None
        return [client.handle(run_id) for run_id in ids]

    async def _apply(
        self, handles: Sequence[RunHandle[Any]], act: Callable[[RunHandle[Any]], Awaitable[str]]
    ) -> int:
        """Act on each run and return the exit code. A run that cannot be changed does not stop the others."""
        out = self._session.out
        if len(handles) == 1 and not out.as_json:
            out.say(await act(handles[0]))
            return 0
        results, code = [], 0
        with out.progress(self._verb, len(handles)) as advance:
            for handle in handles:
                try:
                    text = await act(handle)
                    results.append({"id": handle.id, "done": True, "text": text})
                except StepwellError as error:
                    if len(handles) == 1:
                        raise
                    results.append(
                        {"id": handle.id, "done": False, "code": error.code, "text": error.message}
                    )
                    code = failure.exit_code(error)
                    if code in (failure.UNREACHABLE, failure.USAGE):
                        raise
                advance(1)
        if out.as_json:
            out.json(results)
            return code
        refused = [result for result in results if not result["done"]]
        for result in refused[:20]:
            out.say(f"{result['id']}: {result['text']} [{result['code']}]")
        out.say(f"{self._done}: {len(results) - len(refused)}, refused: {len(refused)}")
        return code
