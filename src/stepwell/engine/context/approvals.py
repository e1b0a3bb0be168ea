"""Approvals: who is asked, in which words; checked, for the log must be readable for ever."""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.domain.text import checked_text, clean
from stepwell.errors import InvalidInput, excerpt


def title_of(title: object) -> str:
    if not isinstance(title, str):
        raise InvalidInput(f"title of ctx.approval is {excerpt(title)}", hint="give text", field="title")
    return clean(title)


def assignees_of(assignees: object) -> tuple[str, ...]:
    if isinstance(assignees, str) or not isinstance(assignees, Iterable):
        raise InvalidInput(
            f"assignees of ctx.approval is {excerpt(assignees)}",
            hint='give a list of names: assignees=["ana", "role:finance"]',
            field="assignees",
        )
    return tuple(checked_text(name, "assignee") for name in assignees)
