"""Cases: a graph, the script of its work nodes, events from outside, and the expected result.

`task` is the scripted work node: script[node] is a list with one entry per attempt,
{dur (ms), out | fail (code) | handle}; attempts continue across those of a retry container around it;
node[i] overrides it in loop iteration i; an `out` that begins with '=' is an expression.

`graphs` has further graphs by name, for `workflow` nodes to call; they can also call the case's graph by
its own `name`, and one another. The script covers the tasks of all of them; each call of a graph counts
as another attempt of its tasks.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepwell.authoring.graphs.expressions import compile_expression
from stepwell.authoring.graphs.templates.json_equality import equal
from stepwell.errors import InvalidInput

_INDEX = re.compile(r"\[(\d+)\]")
_CONTAINER_ATTEMPT = re.compile(r"#\d+(?=/)")


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    graph: dict[str, Any]
    script: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    input: Any = None
    expect: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    graphs: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Case:
        """A case from its JSON; other fields are for readers, and ignored."""
        if not isinstance(body, Mapping):
            raise InvalidInput("a case must be an object with `id` and `graph`", hint="put it in braces")
        script = _shaped(body, "script", Mapping, "an object")
        for node, lines in script.items():
            if not isinstance(lines, list) or not all(isinstance(line, Mapping) for line in lines):
                hint = 'write [{"dur": 5, "out": 1}]'
                raise InvalidInput(f"script.{node} is not a list of objects", hint=hint)
            for line in lines:
                _number(line.get("dur", 0), f"script.{node}: dur")
        events = _shaped(body, "events", list, "a list")
        for event in events:
            if not isinstance(event, Mapping):
                hint = 'write {"t": 5, "event": "paid"}'
                raise InvalidInput("events has an entry that is not an object", hint=hint)
            _number(event.get("t", 0), "events: t")
            if "approve" in event and "response" not in event:
                raise InvalidInput("an approval needs a response", hint='write "response": "approved"')
        return cls(
            id=str(body.get("id", "")),
            graph=body.get("graph") or {},
            script=script,
            events=sorted(events, key=lambda event: event.get("t", 0)),
            input=body.get("input", {}),
            expect=_shaped(body, "expect", Mapping, "an object"),
            title=str(body.get("title", "")),
            graphs=_shaped(body, "graphs", Mapping, "an object"),
        )


def _shaped(body: Mapping[str, Any], name: str, shape: type, article: str) -> Any:
    value = body.get(name)
    if value is None:
        return shape() if shape is list else {}
    if not isinstance(value, shape):
        raise InvalidInput(f"{name} is not {article}", hint=f"give {article}, or leave it out")
    return value


def _number(value: Any, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        hint = "give milliseconds, without quotes"
        raise InvalidInput(f"{name} is {value!r}, not a number", hint=hint)


def read_cases(path: str | Path) -> list[Case]:
    return [Case.read(case) for case in case_bodies(path)]


def case_bodies(path: str | Path) -> list[Any]:
    """The cases of a file, as JSON."""
    try:
        body = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InvalidInput(f"{path} is not JSON: {error}") from None
    cases = body.get("cases") if isinstance(body, dict) else body
    if not isinstance(cases, list) or not cases:
        raise InvalidInput(f"{path} has no list of cases", hint='write {"cases": [...]}, or the list alone')
    return cases


class Script:
    """The script of a case's tasks; counts how often each was started."""

    def __init__(self, case: Case) -> None:
        self._script = case.script
        self._attempts: dict[str, list[tuple[str, str, int]]] = {}
        self.starts: Counter[str] = Counter()

    def line(self, node: str, path: str, attempt: int, run: str = "") -> dict[str, Any]:
        """The entry for this attempt; the last one repeats, and a task without a script takes no time."""
        lines = self._script.get(_indexed(node, path), self._script.get(node, []))
        tried = self._attempts.setdefault(_CONTAINER_ATTEMPT.sub("", path), [])
        place = (run, path, attempt)
        if place not in tried:
            tried.append(place)
        index = tried.index(place)
        return dict(lines[min(index, len(lines) - 1)]) if lines else {}

    def forget(self) -> None:
        """Start over, for another run of the same case."""
        self._attempts.clear()
        self.starts.clear()

    @property
    def handles(self) -> set[str]:
        """The handles that the script names."""
        lines = [line for entries in self._script.values() for line in entries]
        return {str(line["handle"]) for line in lines if line.get("handle")}

    @staticmethod
    def output(line: Mapping[str, Any], scope: Mapping[str, Any]) -> Any:
        out = line.get("out")
        if isinstance(out, str) and out.startswith("="):
            return compile_expression(out[1:]).evaluate(scope)
        return out


def _indexed(node: str, path: str) -> str:
    """A in lines[3]/A is A[3]; in nested loops the innermost counts."""
    indexes = _INDEX.findall(path)
    return f"{node}[{indexes[-1]}]" if indexes else node


def verdict(case: Case, line: Mapping[str, Any]) -> list[str]:
    """The differences from the case's `expect`; none if it passes."""
    wrong = []
    if "invalid" in line and case.expect and "invalid" not in case.expect:
        wrong.append(f"the graph was refused: {', '.join(line['invalid'])}")
    for name, wanted in case.expect.items():
        got = line.get(name)
        if name in ("steps", "starts") and isinstance(got, dict) and isinstance(wanted, dict):
            wrong += [
                f"{name}.{k} is {got.get(k)!r}, not {v!r}" for k, v in wanted.items() if got.get(k) != v
            ]
        elif name == "log" and isinstance(got, list) and isinstance(wanted, list):
            lacks = Counter(map(str, wanted)) - Counter(got)
            wrong += [f"log lacks {kind}; it has {got!r}" for kind in lacks.elements()]
        elif name == "history" and isinstance(got, list):
            history = [[t, status] for status, t in got]
            if not equal(history, wanted) and not equal(got, wanted):
                wrong.append(f"history is {history!r}, not {wanted!r}")
        elif name == "invalid" and isinstance(got, list) and isinstance(wanted, list):
            if set(got) != set(map(str, wanted)):
                wrong.append(f"invalid is {got!r}, not {wanted!r}")
        elif not equal(got, wanted):
            why = f" ({line['error']})" if name == "status" and line.get("error") else ""
            wrong.append(f"{name} is {got!r}{why}, not {wanted!r}")
    return wrong
