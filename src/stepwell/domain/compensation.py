"""Compensation: how a step declares the function that undoes it, and how the log refers to that function.

The log names the compensating function. Only functions that loaded code declared with `compensate=` are ever
called by such a name, whatever a log (or an imported file) says.
"""

from __future__ import annotations

import inspect
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec import Raw

from stepwell.domain.codec import PLAIN, limited
from stepwell.domain.events import CancelRequested, CompensationStarted, Fact, Retried, StepCompleted, Undo
from stepwell.domain.steps import Arguments, StepSpec, encode_arguments, parameter_codecs
from stepwell.errors import InvalidDefinition

# Global because a decorator has no engine to register with, and a step need not be registered with one:
# importing the code that declares a compensation is what makes it callable by name.
_declared: WeakValueDictionary[str, StepSpec] = WeakValueDictionary()


COMPENSATE = "compensate/"  # prefix of the path of a step that undoes another


def compensates(path: str) -> str:
    """The path of the step that undoes this one."""
    return f"{COMPENSATE}{path}"


def begins_cleanup(fact: Fact) -> bool:
    """Whether the workflow's code only cleans up after this fact, or no longer runs."""
    undone = isinstance(fact, Retried) and fact.undo
    return undone or isinstance(fact, CancelRequested | CompensationStarted)


def reference(spec: StepSpec) -> str:
    """module:name of the function; in a script, the module name under which others import it."""
    target = inspect.unwrap(spec.function)
    name = getattr(target, "__qualname__", type(target).__qualname__)
    module = getattr(target, "__module__", "")
    if module == "__main__":
        module = _script(getattr(target, "__globals__", {}))
    return f"{module}:{name}"


def _script(names: dict[str, Any]) -> str:
    """`python flows.py` and `stepwell worker flows.py` run the same code, so it needs the same name."""
    spec = names.get("__spec__")  # of `python -m`
    if spec is not None:
        return str(spec.name)
    return str(names.get("__file__", "")).replace("\\", "/").rpartition("/")[2].removesuffix(".py")


def declare(spec: StepSpec, step: StepSpec) -> StepSpec:
    """`spec` undoes `step`. It takes the step's result, then as many of its arguments as it wants."""
    required = [p for p in _parameters(spec) if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    available = 1 + len(parameter_codecs(step))
    if len(required) > available:
        raise InvalidDefinition(
            f"{spec.name} undoes {step.name} and requires {len(required)} arguments; there are {available}",
            hint=f"take the result of {step.name} first, then its arguments",
        )
    _declared[reference(spec)] = spec
    return spec


def find(name: str) -> StepSpec | None:
    """The step declared under that name; by the function's own name if the module was moved."""
    spec = _declared.get(name)
    if spec is None:
        inner = name.partition(":")[2]
        moved = [other for known, other in list(_declared.items()) if known.partition(":")[2] == inner]
        spec = moved[0] if len(moved) == 1 else None
    return spec


def note_done(done: dict[str, StepCompleted], path: str, fact: StepCompleted) -> None:
    """Record a step that may have to be undone. A path occurs twice if, after a failure, the step ran again
    with other arguments."""
    while path in done and done[path] is not fact and done[path] != fact:
        path = f"{path}!"
    done[path] = fact


def undo_data(spec: StepSpec, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int) -> Undo | None:
    """What the log must keep about this call to undo it; NotSerialisable if it cannot be kept."""
    if spec.compensate is None:
        return None
    names = list(parameter_codecs(spec))
    if kwargs and len(args) <= len(names):  # by position, as the compensating function takes them
        values = dict(zip(names, args, strict=False)) | kwargs
        ordered = [name for i, name in enumerate(names) if all(before in values for before in names[: i + 1])]
        args = tuple(values.pop(name) for name in ordered)
        kwargs = values
    data = limited(encode_arguments(spec, args, kwargs), f"the arguments of {spec.name}", limit)
    return Undo(function=reference(spec.compensate), args=Raw(data))


def arguments(spec: StepSpec, fact: StepCompleted) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the compensating function, decoded by the types of its own parameters."""
    assert fact.undo is not None
    call = msgspec.json.decode(fact.undo.args, type=Arguments)
    values = [fact.result, *call.args]
    parameters = _parameters(spec)
    if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        values = values[: len(parameters)]
    codecs = parameter_codecs(spec)
    names = list(codecs)
    args = [codecs[names[i]].decode(v) if i < len(names) else PLAIN.decode(v) for i, v in enumerate(values)]
    wanted = {name: raw for name, raw in call.kwargs.items() if name in names[len(args) :]}
    return tuple(args), {name: codecs[name].decode(raw) for name, raw in wanted.items()}


def _parameters(spec: StepSpec) -> list[inspect.Parameter]:
    names = parameter_codecs(spec)
    try:
        parameters = inspect.signature(inspect.unwrap(spec.function)).parameters
    except (TypeError, ValueError):  # builtins without one
        return []
    return [parameter for name, parameter in parameters.items() if name in names]
