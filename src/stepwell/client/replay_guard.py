"""Keep clients out of workflow code, where nothing they do would be in the log."""

from __future__ import annotations

from asyncio import events

from stepwell.errors import NotDurable


def refuse_in_workflow_code() -> None:
    """Raise NotDurable in workflow code: an answer could not come back to its loop."""
    if getattr(events._get_running_loop(), "repeats", False):
        raise NotDurable(
            "workflow code used an engine or client, which a replay cannot repeat",
            hint="use ctx.start, ctx.run, ctx.signal ...; put calls that only a client can make into a step",
        )
