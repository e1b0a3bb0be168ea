"""Limits of one expression or template; docs/expressions.md has the table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionLimits:
    """Bounds at compile time (source, nesting, nodes) and at evaluation (the rest)."""

    source_bytes: int = 4_096
    nesting: int = 40
    nodes: int = 500
    # One step is one part of an expression evaluated once, or a bounded piece of work on long data.
    steps: int = 100_000
    string_length: int = 1_048_576
    list_length: int = 100_000
    # The regular expression engine is linear in the text, but also in the size of the pattern.
    match_text_length: int = 65_536
    # The result of a template structure, in about as many bytes as it has in JSON. Values that are
    # passed on whole count too, so this is larger than the limit of one text (string_length).
    structure_size: int = 10 * 1_048_576
    # Data deeper than this is refused instead of walked; incoming JSON has at most 64 levels.
    data_depth: int = 128


DEFAULT_LIMITS = ExpressionLimits()
