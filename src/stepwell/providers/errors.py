"""ModelError: why a model gave no usable answer. Its codes are data: graphs route by them."""

from __future__ import annotations

from stepwell.errors import StepwellError


class ModelError(StepwellError):
    """A request to a model was refused, failed or gave no usable answer."""

    code = "AI_ERROR"

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        permanent: bool = False,
        config: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code  # type: ignore[misc]  # data, not a class
        self.permanent = permanent or config  # another attempt cannot help
        self.config = config  # an author or operator must change something
        self.retry_after = retry_after  # seconds, if the provider said when to try again
        self.input_tokens = self.output_tokens = 0  # tokens that were used all the same
