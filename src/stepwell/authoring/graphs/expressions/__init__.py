"""Expressions: a bounded subset of CEL over JSON values, for conditions and templates of graphs.

No code, no attributes of Python objects, no side effects: an expression looks up keys and indexes, calls
functions of one fixed list, and stops when its budget is spent.
"""

from __future__ import annotations

from stepwell.authoring.graphs.expressions.expression import Expression, compile_expression, names
from stepwell.authoring.graphs.expressions.limits import DEFAULT_LIMITS, ExpressionLimits

__all__ = ["DEFAULT_LIMITS", "Expression", "ExpressionLimits", "compile_expression", "names"]
