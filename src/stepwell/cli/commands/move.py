"""`stepwell move`: moves everything from a SQLite file to PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import Yes
from stepwell.cli.session import CliSession, redacted

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwell.store.move import MoveProgress

commands = Commands()


@commands.add(
    "move",
    "stepwell move app.db postgresql://localhost/app",
    "stepwell move app.db postgresql://localhost/app --yes --json",
    needs="nothing",
)
async def move(
    session: CliSession,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="SQLite file.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Empty database: postgresql://...")],
    yes: Yes = False,
) -> None:
    """Move everything from a SQLite file to an empty PostgreSQL database.

    Stop all workers and servers first. If the move is interrupted, call it again: it continues. Afterwards
    the file is marked, and engines refuse it.
    """
    from stepwell.store import open as stores

    session.use(source)
    session.must_exist()
    question = f"Move {source} to {redacted(target)}, and mark the file as moved?"
    if not session.out.confirm(question, yes=yes):
        session.out.say("nothing was changed")
        return
    with _MoveBar(session) as report:
        moved = await stores.move(source, target, progress=report)
    if session.out.as_json:
        session.out.json({**moved._asdict(), "target": redacted(target)})
        return
    before = "; it was complete before" if moved.repeated else ""
    session.out.say(
        f"moved {moved.runs} runs, {moved.unfinished} of them unfinished, {moved.events} events{before}"
    )
    session.out.say(f"start workers there: stepwell worker FILE --database {redacted(target)}")


class _MoveBar:
    """A progress bar that appears once the number of runs is known."""

    def __init__(self, session: CliSession) -> None:
        from contextlib import ExitStack

        self._session, self._stack = session, ExitStack()
        self._advance: Callable[[int], None] | None = None
        self._done = 0

    def __enter__(self) -> Callable[[MoveProgress], None]:
        return self._report

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _report(self, progress: MoveProgress) -> None:
        if self._advance is None:
            self._advance = self._stack.enter_context(self._session.out.progress("runs", progress.total))
        self._advance(progress.runs - self._done)
        self._done = progress.runs
