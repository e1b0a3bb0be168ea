"""Macros: map, filter, exists, all and exists_one over the items of a list or the keys of a map.

Each item costs as many steps as the body has parts, which bounds nested loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from stepwell.authoring.graphs.expressions.fault import BudgetSpent, ExpressionFault
from stepwell.authoring.graphs.expressions.frame import Closure, Frame
from stepwell.authoring.graphs.expressions.links import LinkClosure
from stepwell.authoring.graphs.expressions.logic import not_boolean
from stepwell.authoring.graphs.expressions.operators import items
from stepwell.authoring.graphs.expressions.values import type_name

# (slot of the variable, condition of map's long form, body, steps per item, column)
MacroBuilder: TypeAlias = Callable[[int, Closure | None, Closure, int, int], LinkClosure]


def _each(frame: Frame, value: Any, macro: str, column: int) -> Iterable[Any]:
    if type(value) is list or type(value) is dict:
        return value
    raise ExpressionFault(f"{macro} needs a list or a map, this is {type_name(value)}", column=column)


def _map(slot: int, only: Closure | None, body: Closure, weight: int, column: int) -> LinkClosure:
    def run(frame: Frame, value: Any) -> list[Any]:
        results: list[Any] = []
        local, spend = frame.locals, frame.spend
        for item in _each(frame, value, "map", column):
            spend(weight)
            local[slot] = item
            if only is not None:
                wanted = only(frame)
                if wanted is False:
                    continue
                if wanted is not True:
                    raise not_boolean("the condition of map", wanted, column)
            results.append(body(frame))
        return items(frame, results)

    return run


def _filter(slot: int, only: Closure | None, body: Closure, weight: int, column: int) -> LinkClosure:
    def run(frame: Frame, value: Any) -> list[Any]:
        results: list[Any] = []
        local, spend = frame.locals, frame.spend
        for item in _each(frame, value, "filter", column):
            spend(weight)
            local[slot] = item
            wanted = body(frame)
            if wanted is True:
                results.append(item)
            elif wanted is not False:
                raise not_boolean("the condition of filter", wanted, column)
        return items(frame, results)

    return run


def _decided_by(decisive: bool, macro: str) -> MacroBuilder:
    """exists is `||` and all is `&&` over the items, faults included."""
    other = not decisive

    def build(slot: int, only: Closure | None, body: Closure, weight: int, column: int) -> LinkClosure:
        def run(frame: Frame, value: Any) -> Any:
            first_fault: ExpressionFault | None = None
            local, spend = frame.locals, frame.spend
            for item in _each(frame, value, macro, column):
                spend(weight)
                local[slot] = item
                try:
                    holds = body(frame)
                except BudgetSpent:
                    raise
                except ExpressionFault as fault:
                    first_fault = first_fault or fault.with_traceback(None)
                    continue
                if holds is decisive:
                    return decisive
                if holds is not other:
                    first_fault = first_fault or not_boolean(f"the condition of {macro}", holds, column)
            if first_fault is not None:
                raise first_fault
            return other

        return run

    return build


def _exists_one(slot: int, only: Closure | None, body: Closure, weight: int, column: int) -> LinkClosure:
    def run(frame: Frame, value: Any) -> bool:
        count = 0
        for item in _each(frame, value, "exists_one", column):
            frame.spend(weight)
            frame.locals[slot] = item
            holds = body(frame)
            if holds is True:
                count += 1
            elif holds is not False:
                raise not_boolean("the condition of exists_one", holds, column)
        return count == 1

    return run


MACRO_BUILDERS: dict[str, MacroBuilder] = {
    "map": _map,
    "filter": _filter,
    "exists": _decided_by(True, "exists"),
    "all": _decided_by(False, "all"),
    "exists_one": _exists_one,
}
