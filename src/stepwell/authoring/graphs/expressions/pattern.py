"""Pattern: regular expressions through RE2 only, whose time is linear in the text whatever the pattern is."""

from __future__ import annotations

import functools
from typing import Any, Protocol

from stepwell.authoring.graphs.expressions.fault import ExpressionFault
from stepwell.authoring.graphs.expressions.frame import Frame
from stepwell.authoring.graphs.expressions.values import type_name

PATTERN_LENGTH_MAX = 1_000
# RE2's bound for the compiled pattern and its cache of states, for each pattern.
PATTERN_MEMORY_MAX = 1 << 20
COMPILE_STEPS = 100
CHARACTERS_A_STEP = 16


class Pattern(Protocol):
    def search(self, text: str) -> object | None: ...


def matches(frame: Frame, text: Any, pattern: Any) -> bool:
    """Whether the pattern is found somewhere in the text; ^ and $ tie it to the ends."""
    if type(text) is not str or type(pattern) is not str:
        raise ExpressionFault(f"matches needs two strings, not {type_name(text)} and {type_name(pattern)}")
    if len(text) > frame.limits.match_text_length:
        raise ExpressionFault(f"matches looks through at most {frame.limits.match_text_length:,} characters")
    frame.spend(COMPILE_STEPS + len(text) // CHARACTERS_A_STEP)
    try:
        return compiled(pattern).search(text) is not None
    except UnicodeError:
        raise ExpressionFault("matches needs text that can be written as UTF-8") from None


@functools.lru_cache(maxsize=64)
def compiled(pattern: str) -> Pattern:
    """A Fault says what is wrong with the pattern."""
    # Imported on first use: most graphs have no pattern, and every process would pay for it.
    import re2

    if len(pattern) > PATTERN_LENGTH_MAX:
        raise ExpressionFault(f"a pattern has at most {PATTERN_LENGTH_MAX:,} characters")
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_MAX
    options.log_errors = False
    options.never_capture = True
    try:
        found: Pattern = re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        raise ExpressionFault(
            f"the pattern {pattern[:40]!r} is wrong: {_words(error)}", hint="RE2 has no lookaround and no \\1"
        ) from None
    return found


def _words(error: Exception) -> str:
    said = error.args[0] if error.args else error
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
