"""The options of a start: checked before anything is written, with the same words on every store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

from stepwell.domain.codec import PLAIN, limited
from stepwell.domain.duration import Duration, seconds, timeout_seconds
from stepwell.domain.limits import Concurrency
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.domain.text import checked_text
from stepwell.domain.whole_numbers import checked_priority, whole_number
from stepwell.errors import InvalidInput, excerpt


class _Options(TypedDict, total=False):
    delay: Duration
    priority: int | None
    queue: str
    timeout: Duration | None
    tags: dict[str, str] | None
    concurrency: Concurrency | None
    user: str


class StartOptions(_Options, total=False):
    """Of one run."""

    key: str


class NamedStartOptions(StartOptions, total=False):
    """Of one run whose workflow is given by its name."""

    version: str


class ManyOptions(_Options, total=False):
    """Of many runs: the same for all of them."""

    version: str


# `graph`, `test` and `trigger` are the engine's own.
_KNOWN = ("delay", "timeout", "priority", "queue", "tags", "concurrency", "graph", "test", "trigger")
_TAGS_BYTES_MAX = 64 * 1024  # they are read with every list of runs
_SAID = ("key", "user", "version", *_KNOWN[:6])


def checked_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options with delays in seconds; InvalidInput or InvalidDefinition says which one is wrong."""
    for name in options:
        if name not in _KNOWN:
            raise InvalidInput(f"start has no option {excerpt(name)}", hint=did_you_mean_one_of(name, _SAID))
    options["delay"] = seconds(options.get("delay", 0), name="delay")
    options["timeout"] = timeout_seconds(options.get("timeout"))
    if options.get("priority") is not None:
        checked_priority(options["priority"], InvalidInput)
    if options.get("queue"):
        checked_text(options["queue"], "queue")
    if options.get("tags") is not None:
        _check_tags(options["tags"])
    if options.get("concurrency") is not None:
        _check_concurrency(options["concurrency"])
    return options


def _check_tags(tags: object) -> None:
    if not isinstance(tags, dict) or any(not isinstance(text, str) for pair in tags.items() for text in pair):
        raise InvalidInput(
            f"tags are {excerpt(tags)}", hint='names and values are text: tags={"customer": "7"}'
        )
    limited(PLAIN.encode(tags), "what the tags hold", _TAGS_BYTES_MAX)


def _check_concurrency(given: object) -> None:
    """Before it is written: every worker reads it, so a wrong one would stop them all."""
    hint = 'Concurrency("customer/7", 1); of all runs: @workflow(concurrency=10)'
    if not isinstance(given, Concurrency) or given.hold not in ("active", "run"):
        raise InvalidInput(f"concurrency is {excerpt(given)}", hint=hint)
    checked_text(given.key, "key of concurrency")
    if not given.key:
        raise InvalidInput("concurrency has no key", hint=hint)
    whole_number(given.most, "most of concurrency", 1, 10**9, wrong=InvalidInput)


def checked_inputs(inputs: object) -> list[Any]:
    """One for each run."""
    if not isinstance(inputs, Iterable):
        raise InvalidInput(f"inputs is {excerpt(inputs)}", hint="give a list with one input for each run")
    return list(inputs)


def checked_keys(keys: object, inputs: Sequence[Any]) -> Sequence[str]:
    """One key for each input."""
    if keys is None:
        return [""] * len(inputs)
    if isinstance(keys, str) or not isinstance(keys, Sequence) or len(keys) != len(inputs):
        raise InvalidInput(
            f"{len(inputs)} inputs and keys={excerpt(keys)}", hint="give one key for each input, '' for none"
        )
    return keys
