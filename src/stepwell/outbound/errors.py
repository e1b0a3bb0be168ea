"""Errors of outgoing calls. Their codes are data: graphs route by them, as by the codes of nodes."""

from __future__ import annotations

from stepwell.errors import StepwellError


class OutboundError(StepwellError):
    """An outgoing call was refused or failed."""

    code = "OUTBOUND_ERROR"

    def __init__(
        self, code: str, message: str, *, hint: str = "", permanent: bool = False, **context: object
    ) -> None:
        super().__init__(message, hint=hint, **context)
        self.code = code  # type: ignore[misc]  # data, not a class
        self.permanent = permanent  # another attempt cannot help


class OutboundRefused(OutboundError):
    """The call is not allowed. No connection was made."""

    code = "OUTBOUND_REFUSED"

    def __init__(self, code: str, message: str, *, hint: str = "", **context: object) -> None:
        super().__init__(code, message, hint=hint, permanent=True, **context)


class OutboundFailed(OutboundError):
    """The call was made, and there is no usable answer."""

    code = "OUTBOUND_FAILED"
