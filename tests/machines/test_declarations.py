"""Machines that are declared in ways that cannot work: each mistake is told as ours, with its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stepwell import Context, Machine, transition
from stepwell.errors import InvalidDefinition


def told(define: Callable[[], object]) -> str:
    """What is said of a definition; all of it stands in this file."""
    with pytest.raises(InvalidDefinition) as caught:
        define()
    lines = caught.value.message.splitlines()
    assert all(line.startswith("  - test_declarations.py:") for line in lines[1:]), lines
    return caught.value.message


@pytest.mark.req("M8")
def test_a_bad_name_and_version_are_told_with_the_other_mistakes() -> None:
    def define() -> None:
        class Bad(Machine[dict[str, int]], name="a/b", version=2):  # type: ignore[arg-type]  # the test
            @transition("start", "end", timeout=0)
            async def go(self, ctx: Context) -> None: ...

    text = told(define)

    assert "has 3 problems" in text
    assert "Bad: 'a/b' cannot be the name of a machine; use 1 to 200 printable" in text
    assert "Bad: 2 cannot be the version of a machine; give text: '2'" in text
    assert " go: " in text
