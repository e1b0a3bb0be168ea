"""The Python reference: public names with their signatures and docstrings."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any, get_overloads, is_typeddict

import stepwell

_WIDTH = 100
GROUPS: dict[str, tuple[str, ...]] = {
    "Write workflows": (
        *(
            "workflow",
            "step",
            "Machine",
            "transition",
            "graph",
            "GraphBuilder",
            "node",
            "NodeResult",
            "merger",
        ),
        *("Retry", "Concurrency", "Permanent", "RetryAfter", "NodeError"),
    ),
    "Inside workflow code": ("Context", "SyncContext", "StepContext"),
    "Run them": ("Engine", "Settings", "run_stateless", "asgi"),
    "Talk to runs": ("Client", "RunHandle", "SyncClient", "SyncRunHandle"),
}


def page() -> str:
    """Return the page; names that no group lists stand at the end, so none is missing."""
    grouped = {name for names in GROUPS.values() for name in names}
    others = tuple(name for name in stepwell.__all__ if name not in grouped)
    lines = ["# Python reference", "", "Everything that `stepwell` exports, from its docstrings.", ""]
    for title, names in {**GROUPS, "Values and errors": others}.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += _entry(name, getattr(stepwell, name))
    return "\n".join(lines).rstrip() + "\n"


def _entry(name: str, value: Any) -> Iterator[str]:
    yield from (f"### {name}", "")
    if inspect.isclass(value):
        yield from _class(name, value)
    else:
        yield from _callable(name, value)


def _class(name: str, value: type) -> Iterator[str]:
    if not issubclass(value, enum.Enum | BaseException) and not is_typeddict(value):
        yield from _signatures(name, value.__init__, skip_first=True)
    yield from _docstring(value)
    if issubclass(value, enum.Enum):
        yield from (", ".join(f"`{member.value}`" for member in value), "")
        return
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
        yield from (f"Fields: {', '.join(f'`{field}`' for field in fields)}.", "")
    for member, function in _members(value):
        yield from (f"#### {name}.{member}", "")
        if isinstance(function, property):
            yield from _docstring(function.fget)
        else:
            yield from _callable(member, function)


def _members(value: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of the class and of its own bases, in the order of the source."""
    seen: set[str] = set()
    for owner in value.__mro__:
        if not owner.__module__.startswith("stepwell"):
            continue
        for member, raw in vars(owner).items():
            function = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
            public = not member.startswith("_") and member not in seen
            documented = inspect.getdoc(function.fget if isinstance(function, property) else function)
            if public and (inspect.isfunction(function) or isinstance(function, property)) and documented:
                seen.add(member)
                yield member, function


def _callable(name: str, value: Any) -> Iterator[str]:
    yield from _signatures(name, value, skip_first="." in getattr(value, "__qualname__", ""))
    yield from _docstring(value)


def _signatures(name: str, function: Any, *, skip_first: bool) -> Iterator[str]:
    shown = get_overloads(function) if inspect.isfunction(function) else []
    lines = [line for each in shown or [function] for line in _signature(name, each, skip_first)]
    if lines:
        yield from ("```text", *lines, "```", "")


def _signature(name: str, function: Any, skip_first: bool) -> list[str]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    given = list(signature.parameters.values())[1 if skip_first else 0 :]
    if skip_first and not list(signature.parameters):
        return []
    texts = list(_parameters(given))
    if texts == ["*args", "**kwargs"]:  # of a class without an __init__ of its own
        return []
    gives = signature.return_annotation
    answer = "" if gives in (inspect.Signature.empty, None, "None") else f" -> {_annotation(gives)}"
    waits = "async " if inspect.iscoroutinefunction(function) else ""
    line = f"{waits}{name}({', '.join(texts)}){answer}"
    if len(line) <= _WIDTH:
        return [line]
    return [f"{waits}{name}(", *(f"    {text}," for text in texts), f"){answer}"]


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    """Return them as a caller writes them, without what begins with an underscore."""
    keyword_only = False
    for parameter in parameters:
        if parameter.name.startswith("_"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            yield "*"
        keyword_only = keyword_only or parameter.kind is parameter.VAR_POSITIONAL
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
        kind = "" if parameter.annotation is parameter.empty else f": {_annotation(parameter.annotation)}"
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
        yield f"{stars}{parameter.name}{kind}{default}"


def _annotation(value: Any) -> str:
    text = value if isinstance(value, str) else inspect.formatannotation(value)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text)


def _default(value: Any) -> str:
    text = repr(value)
    return "..." if " at 0x" in text or "<" in text else text


def _docstring(value: Any) -> Iterator[str]:
    text = inspect.getdoc(value)
    if text:
        yield from (textwrap.dedent(text).strip(), "")
