"""Input of a trigger: JSON whose strings may refer to the trigger's values, as `{{trigger.slot}}`.

Only names and their fields are replaced, once. No expression is evaluated, and a value that contains braces
stays text. A string that is one reference becomes the value itself; within other text the value is written
out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from stepwell.domain.codec import PAYLOAD_BYTES_MAX, PLAIN
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import InvalidInput, PayloadTooLarge, excerpt

_REFERENCE = re.compile(r"\{\{\s*trigger\.([A-Za-z_][\w.]*)\s*\}\}", re.ASCII)


def filled(value: Any, known: Mapping[str, Any], bytes_max: int = PAYLOAD_BYTES_MAX) -> Any:
    """Return the value with its references replaced.

    PayloadTooLarge if the references alone exceed the limit. This is checked before they are written, so
    that a few references to a large value cannot fill the memory.
    """
    size = 0
    for path, count in Counter(_references(value)).items():
        size += count * _size(_read(path, known))
        if size > bytes_max:
            raise PayloadTooLarge(
                f"the input with its references filled in is more than {bytes_max:,} bytes, the limit"
            )
    return _filled(value, known)


def _size(value: Any) -> int:
    """Return how many bytes a reference to this value adds, at least."""
    text = value.encode(errors="surrogatepass") if isinstance(value, str) else PLAIN.encode(value)
    return len(text)


def _filled(value: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return _filled_text(value, known) if "{{" in value else value
    if isinstance(value, dict):
        return {key: _filled(item, known) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, known) for item in value]
    return value


def _filled_text(text: str, known: Mapping[str, Any]) -> Any:
    alone = _REFERENCE.fullmatch(text)
    if alone is not None:
        return _read(alone[1], known)
    return _REFERENCE.sub(lambda match: _text(_read(match[1], known)), text)


def _read(path: str, known: Any) -> Any:
    for name in path.split("."):
        known = known.get(name) if isinstance(known, Mapping) else None
    return known


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def check_references(value: Any, names: Iterable[str]) -> None:
    """Raise InvalidInput if the value refers to something that a trigger of this type does not have."""
    names = list(names)
    for path in _references(value):
        name = path.partition(".")[0]
        if name not in names:
            raise InvalidInput(
                f"{{{{trigger.{path}}}}} in the input: {excerpt(name)} is not known",
                hint=did_you_mean_one_of(name, names),
                field="input",
            )


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _REFERENCE.findall(value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)
