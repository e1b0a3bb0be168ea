"""RunWatch: follow a run, as a tree that changes in a terminal, or as a line for each change elsewhere."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stepwell.cli import failure
from stepwell.cli.session import CliSession
from stepwell.cli.step_tree import StepLine, StepTree, style_of
from stepwell.cli.text import MARKS, duration_text, short_time
from stepwell.errors import NotEndedYet
from stepwell.system import SystemClock

if TYPE_CHECKING:
    from stepwell.client import RunEvent, RunHandle

_SETTLED = 0.2  # seconds without an event: what was read is the present
_LATE = 2.0  # seconds until the watcher explains why a run has not begun
_ROWS_KEPT = 8  # lines of the terminal that stay free
_NAME = 36
_CODES = {"completed": 0, "cancelled": failure.CANCELLED}
Update = Callable[[StepLine | None, float], None]  # the line that an event changed, and when


class RunWatch:
    """Follows one run to its end, and reports how it ended."""

    def __init__(self, session: CliSession, handle: RunHandle[Any], title: str) -> None:
        self._session, self._handle = session, handle
        self._title = title
        self.tree = StepTree()
        self._live = sys.stderr.isatty() and not session.out.as_json
        self._begun = asyncio.Event()

    async def follow(self, *, timeout: float | None = None, exit_on_wait: bool = False) -> int:
        """Follow the run and return the exit code."""
        try:
            async with asyncio.timeout(timeout) as clock:
                code = await self._follow(exit_on_wait=exit_on_wait)
        except TimeoutError:
            if not clock.expired():
                raise
            raise NotEndedYet(
                f"run {self._handle.id} has not ended after {timeout:g} s",
                hint=f"it continues: {self._session.command(f'watch {self._handle.id}')}",
            ) from None
        return code

    async def _follow(self, *, exit_on_wait: bool) -> int:
        with self._shown() as update:
            async with asyncio.TaskGroup() as group:
                late = group.create_task(self._explain_late())
                code = await self._take_all(group, update, exit_on_wait=exit_on_wait)
                late.cancel()
        if code is None:
            self._say_end()
            code = _CODES.get(self.tree.status, failure.FAILED)
        return code

    async def _take_all(self, group: asyncio.TaskGroup, update: Update, *, exit_on_wait: bool) -> int | None:
        events = aiter(self._handle.events(follow=True))
        opened: StepLine | None = None  # the last wait, until it is known whether it was answered long ago
        while True:
            coming = group.create_task(_next(events))
            try:
                if opened is not None and not (await asyncio.wait({coming}, timeout=_SETTLED))[0]:
                    if not opened.settled and (exit_on_wait or not self._live):
                        self._say_waits()
                    if not opened.settled and exit_on_wait:
                        return failure.WAITING
                    opened = None
                event = await coming
            finally:
                coming.cancel()
            if event is None:
                return None
            line = self.tree.take(event)
            if event.kind == "claimed":
                self._begun.set()
            update(line, event.at.timestamp())
            opened = line if event.kind == "wait_opened" else opened

    async def _explain_late(self) -> None:
        try:
            async with asyncio.timeout(_LATE):
                await self._begun.wait()
        except TimeoutError:
            reason = await self._handle.why()
            self._session.out.say(f"  not begun yet: {reason.text}")

    # What is shown

    @contextmanager
    def _shown(self) -> Iterator[Update]:
        if self._session.out.as_json:
            yield lambda line, at: None
        elif self._live:
            with self._tree_shown() as update:
                yield update
        else:
            self._session.out.say(f"▶ {self._title}")
            yield self._print_line

    def _print_line(self, line: StepLine | None, at: float) -> None:
        if line is None:
            return
        mark, took, note = line.texts(at)
        shown = short_time(at, SystemClock.time())
        text = f"{shown}  {mark:<{_NAME}} {took:>7}  {line.status}  {note}"
        self._session.out.say(text.rstrip())

    @contextmanager
    def _tree_shown(self) -> Iterator[Update]:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True, no_color=None if self._session.out.color_allowed else True)
        with Live(get_renderable=self._picture, console=console, refresh_per_second=8):
            yield lambda line, at: None  # the tree is drawn eight times a second anyway

    def _picture(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        now, table = (
            SystemClock.time(),
            Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0)),
        )
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(overflow="ellipsis", no_wrap=True)
        status = self.tree.status
        head = Text(f"{MARKS.get(status, '·')} {self._title}", style=f"bold {style_of(status)}")
        began, ended = self.tree.began, self.tree.ended
        took = duration_text((ended if ended is not None else now) - began) if began is not None else ""
        table.add_row(head, took, Text(self.tree.progress))
        for line in self._visible():
            if isinstance(line, str):
                table.add_row(Text(f"  {line}", style="dim"), "", "")
                continue
            mark, took, note = line.texts(now)
            note_style = "red" if line.status in ("failed", "retrying") else "dim"
            table.add_row(Text(f"  {mark}", style=style_of(line.status)), took, Text(note, style=note_style))
        for wait in self._waits():
            table.add_row(Text(f"  {wait}", style="magenta"), "", "")
        return table

    def _visible(self) -> list[StepLine | str]:
        """The lines that fit the terminal: open ones and the latest."""
        lines = list(self.tree.lines.values())
        room = max(5, self._session.out.height - _ROWS_KEPT)
        if len(lines) <= room:
            return [*lines]
        open_ones = [line for line in lines if not line.settled][-room:]
        latest = [line for line in lines if line.settled][-max(0, room - len(open_ones)) :]
        return [f"… {len(lines) - len(open_ones) - len(latest)} earlier", *latest, *open_ones]

    def _waits(self) -> list[str]:
        """The commands that answer what the run waits for."""
        run, hints = self._handle.id, []
        for line in self.tree.lines.values():
            if line.status != "suspended" or line.settled:
                continue
            what, _, name = line.name.partition(" ")
            if what == "signal":
                hints.append(self._session.command(f"runs signal {run} {name} --payload JSON"))
            elif what == "approval":
                hints.append(self._session.command(f"approvals approve {run}"))
            elif what == "trigger":
                hints.append(self._session.command(f"runs waits {run}"))
        return hints

    def _say_waits(self) -> None:
        for hint in self._waits():
            self._session.out.say(f"  waiting: {hint}")

    def _say_end(self) -> None:
        out, tree, run = self._session.out, self.tree, self._handle.id
        if out.as_json:
            return
        began = tree.began if tree.began is not None else tree.ended
        took = duration_text((tree.ended or 0.0) - (began or 0.0))
        out.say(f"{MARKS.get(tree.status, '·')} {tree.status} in {took}", style_of(tree.status))
        if tree.status in ("failed", "timed_out"):
            message = " ".join(str(tree.error.get("message", "")).split())
            out.say(f"  {message} [{tree.error.get('code', '')}]")
            if tree.error.get("traceback"):
                out.say(str(tree.error["traceback"]).rstrip())
            out.say(f"  fix the cause, then: {self._session.command(f'runs retry {run}')}")

    def say_detached(self, how: str) -> int:
        """Say that the run continues without the watcher; return the exit code."""
        run = self._handle.id
        self._session.out.say(
            f"\ndetached; {how}\n  follow: {self._session.command(f'watch {run}')}\n"
            f"  cancel: {self._session.command(f'runs cancel {run}')}"
        )
        return failure.INTERRUPTED


async def _next(events: AsyncIterator[RunEvent]) -> RunEvent | None:
    return await anext(events, None)
