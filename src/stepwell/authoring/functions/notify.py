"""notify: the step that sends a mail or a webhook through a channel that an operator configured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from stepwell.authoring.functions.step import step
from stepwell.domain.program import StepContext
from stepwell.domain.retry import Retry
from stepwell.errors import InvalidRequest

RETRY = Retry(5, delay=2.0, max_delay=300.0)
SECONDS = 60.0  # channels time out earlier than this


@step(name="stepwell.notify", retry=RETRY, timeout=SECONDS)
async def notify(
    step: StepContext,
    channel: str,
    *,
    to: Sequence[str] = (),
    subject: str = "",
    text: str = "",
    data: Any = None,
) -> dict[str, Any]:
    """Send a mail or a signed webhook: `await ctx.step(notify, "ops", subject="Late", text="Order 42")`.

    `channel` is one that an operator configured. A mail goes to the addresses in `to`, or to those of the
    channel; a webhook gets `data`, or the subject and the text. It is tried five times; every attempt has
    the same Message-ID or `webhook-id`.
    """
    raise InvalidRequest("notify runs as a step of a run", hint="await ctx.step(notify, channel, ...)")


notify.spec = replace(notify.spec, provided=True)
