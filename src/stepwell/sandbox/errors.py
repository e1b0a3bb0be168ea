"""CodeError: what went wrong with the code of a node."""

from __future__ import annotations

from stepwell.errors import StepwellError


class CodeError(StepwellError):
    """The code of a node did not give an output."""

    code = "CODE_ERROR"

    def __init__(self, code: str, message: str, *, hint: str = "", **context: object) -> None:
        super().__init__(message, hint=hint, **context)
        self.code = code  # type: ignore[misc]  # data, as the codes of nodes are
