"""Pattern: regular expressions through RE2 only: its time is linear in the text for every pattern."""

from __future__ import annotations

import functools
from typing import Any, Protocol

from stepwell.authoring.graphs.expressions.fault import ExpressionFault
from stepwell.authoring.graphs.expressions.frame import Frame
from stepwell.authoring.graphs.expressions.values import type_name

PATTERN_LENGTH_MAX = 1_000
# RE2's memory limit for one compiled pattern and its cache of states.
PATTERN_MEMORY_MAX = 1 << 20
COMPILE_STEPS = 100
CHARACTERS_A_STEP = 16


class Pattern(Protocol):
    def search(self, text: str) -> object | None: ...


def matches(frame: Frame, text: Any, pattern: Any) -> bool:
    """Whether the pattern matches anywhere in the text; ^ and $ anchor it."""
    if type(text) is not str or type(pattern) is not str:
        raise ExpressionFault(f"matches needs two strings, not {type_name(text)} and {type_name(pattern)}")
    if len(text) > frame.limits.match_text_length:
        raise ExpressionFault(f"matches reads at most {frame.limits.match_text_length:,} characters")
    frame.spend(COMPILE_STEPS + len(text) // CHARACTERS_A_STEP)
    try:
        return compiled(pattern).search(text) is not None
    except UnicodeError:
        raise ExpressionFault("matches needs text that can be written as UTF-8") from None


@functools.lru_cache(maxsize=64)
def compiled(pattern: str) -> Pattern:
    """Compile a pattern, or raise a fault that explains the error."""
    # Imported on first use: most graphs have no pattern, but every process would pay for the import.
    import re2

    if len(pattern) > PATTERN_LENGTH_MAX:
        raise ExpressionFault(f"a pattern has at most {PATTERN_LENGTH_MAX:,} characters")
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_MAX
    options.log_errors = False
    options.never_capture = True
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        raise ExpressionFault(
            f"the pattern {pattern[:40]!r} is invalid: {_words(error)}",
            hint="RE2 has no lookaround or \\1",
        ) from None
    return compiled


def _words(error: Exception) -> str:
    said = error.args[0] if error.args else error
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
