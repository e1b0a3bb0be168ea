"""Title and description of a workflow, from its docstring."""

from __future__ import annotations

import inspect

from stepwell.errors import InvalidDefinition, excerpt

_TITLE_MAX = 200


def described(docstring: str | None, title: str = "") -> tuple[str, str]:
    """Return title and description: the docstring's first line, unless a title is given, and the rest."""
    given: object = title  # callers without a type checker pass anything
    if not isinstance(given, str) or len(given) > _TITLE_MAX or not given.isprintable():
        raise InvalidDefinition(
            f"the title is {excerpt(title)}", hint=f"give one line of at most {_TITLE_MAX} characters"
        )
    text = inspect.cleandoc(docstring or "")
    if title:
        return title, text
    first, _, rest = text.partition("\n")
    return first.strip()[:_TITLE_MAX], rest.strip()
