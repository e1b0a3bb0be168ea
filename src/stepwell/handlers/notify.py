"""The step `notify` of functions and machines: one attempt to send through a named channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepwell.authoring.functions.notify import notify
from stepwell.channels.errors import NotifyError
from stepwell.channels.notification import Notification, id_of
from stepwell.domain.program import StepContext
from stepwell.domain.steps import StepSpec
from stepwell.errors import RetryAfter, StepError

if TYPE_CHECKING:
    from stepwell.channels.channels import Channels

AFTER_MAX = 300.0  # longest delay, in seconds, that a receiver may ask for


class NotSent(StepError):
    """A notification of a step could not be sent."""

    def __init__(self, error: NotifyError) -> None:
        super().__init__(error.message, hint=error.hint)
        self.code = error.code  # type: ignore[misc]  # data, not a class
        self.permanent = error.permanent


class NotSentYet(NotSent, RetryAfter):
    """A NotSent whose receiver said when to try again."""

    def __init__(self, error: NotifyError, seconds: float) -> None:
        NotSent.__init__(self, error)
        self.seconds = seconds


def notify_step(channels: Callable[[], Channels]) -> StepSpec:
    """Return the step `stepwell.notify` of functions and machines, which sends through these channels."""

    async def call(
        step: StepContext,
        channel: str,
        *,
        to: Sequence[str] = (),
        subject: str = "",
        text: str = "",
        data: Any = None,
    ) -> dict[str, Any]:
        notification = Notification(id=id_of(step.key), subject=subject, text=text, to=tuple(to), data=data)
        try:
            return await channels().send(channel, notification)
        except NotifyError as error:
            if error.after is None or error.permanent:
                raise NotSent(error) from None
            raise NotSentYet(error, min(error.after, AFTER_MAX)) from None

    return replace(notify.spec, function=call, provided=False)
