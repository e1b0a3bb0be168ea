"""Outside: clients talk to runs from outside. In workflow code nothing of it would be in the log."""

from __future__ import annotations

from asyncio import events

from stepwell.errors import NotDurable


def check_outside() -> None:
    """NotDurable in workflow code: its loop is not the client's, and answers could not come back to it."""
    if getattr(events._get_running_loop(), "repeats", False):
        raise NotDurable(
            "workflow code used an engine or client, which cannot be repeated after a restart",
            hint="use ctx.start, ctx.run, ctx.signal ...; what only a client can do belongs into a step",
        )
