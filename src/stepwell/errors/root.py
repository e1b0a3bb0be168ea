"""The root of the tree: code, message, hint."""

from __future__ import annotations

from typing import ClassVar

from stepwell.errors.excerpt import whole


class StepwellError(Exception):
    """Something went wrong in Stepwell."""

    code: ClassVar[str] = "STEPWELL_ERROR"
    hint: str = ""

    def __init__(self, message: str = "", *, hint: str = "", **context: object) -> None:
        self.message = whole(message or (type(self).__doc__ or "").strip())
        if hint:
            self.hint = hint
        self.context = context
        super().__init__(self.message)

    def __str__(self) -> str:
        lines = [f"{self.message} [{self.code}]"]
        lines += [f"  {name:<8} {whole(str(value))}" for name, value in self.context.items()]
        if self.hint:
            lines.append(f"  {'hint':<8} {self.hint}")
        return "\n".join(lines)
