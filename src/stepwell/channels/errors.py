"""NotifyError: why a notification was not sent. Its codes are data: graphs route by them."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.errors import StepwellError


class NotifyError(StepwellError):
    """A notification was not sent."""

    code = "NOTIFY_ERROR"

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        permanent: bool = False,
        config: bool = False,
        after: float | None = None,
        context: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint=hint, **(context or {}))
        self.code = code  # type: ignore[misc]  # data, not a class
        self.config = config  # the request is wrong, and the author of the graph can fix it
        self.permanent = permanent or config  # another attempt cannot help
        self.after = after  # seconds after which the receiver wants to be asked again


def refused(code: str, message: str, *, hint: str = "", field: str = "") -> NotifyError:
    """Return the error for a notification that must not be sent. No connection was made."""
    where = {"field": field} if field else {}
    return NotifyError(code, message, hint=hint, config=True, context=where)
