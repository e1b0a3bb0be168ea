"""CodeError: what went wrong with the code of a node."""

from __future__ import annotations

from stepwell.errors import StepwellError


class CodeError(StepwellError):
    """The code of a node gave no output."""

    code = "CODE_ERROR"

    def __init__(self, code: str, message: str, *, hint: str = "", **context: object) -> None:
        super().__init__(printable(message), hint=hint, **context)
        self.code = code  # type: ignore[misc]  # data, as the codes of nodes are
        self.logged: tuple[str, ...] = ()  # what the code printed before


def printable(text: str) -> str:
    """Escape control characters: the text is untrusted, and could steer a terminal or fake a line."""
    return "".join(
        character
        if character.isprintable() or character == "\t"
        else character.encode("unicode_escape").decode()
        for character in text
    )
