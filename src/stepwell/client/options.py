"""Options of starts, reruns, forks and lists: keywords, checked alike for every store before any write."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from stepwell.domain.codec import PLAIN, limited
from stepwell.domain.duration import Duration, seconds, timeout_seconds
from stepwell.domain.limits import Concurrency
from stepwell.domain.status import Status
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.domain.text import checked_text
from stepwell.domain.whole_numbers import checked_priority, whole_number
from stepwell.errors import InvalidInput, excerpt

Moment = float | datetime


class _Options(TypedDict, total=False):
    delay: Duration
    priority: int | None
    queue: str
    timeout: Duration | None
    tags: dict[str, str] | None
    concurrency: Concurrency | None
    by: str
    trigger: str


class StartOptions(_Options, total=False):
    """Options of one run."""

    key: str


class NamedStartOptions(StartOptions, total=False):
    """Options of one run whose workflow is given by name."""

    version: str


class ManyOptions(_Options, total=False):
    """Options that many runs share."""

    version: str


class WhoOptions(TypedDict, total=False):
    """Who does it, and why."""

    by: str
    reason: str


class RerunOptions(WhoOptions, total=False):
    input: Any
    version: str
    key: str


class RerunFromOptions(WhoOptions, total=False):
    outputs: Mapping[str, Any] | None
    key: str


class ForkOptions(RerunFromOptions, total=False):
    input: Any
    state: Any


class ListOptions(TypedDict, total=False):
    """Which runs to list."""

    workflow: str
    version: str
    queue: str
    status: Status | str | Sequence[Status | str]
    key: str
    key_prefix: str
    id_prefix: str
    parent: str
    trigger: str
    tags: Mapping[str, str] | None
    error: str
    since: Moment | None
    until: Moment | None
    before: str
    limit: int


class HistogramOptions(TypedDict, total=False):
    """Which runs to count, and in which buckets of time; `since` is needed."""

    since: Moment
    until: Moment | None  # now
    buckets: int  # 60
    workflow: str
    version: str
    queue: str
    status: Status | str | Sequence[Status | str]


# `graph` and `test` are for the engine only.
_ALL = ("delay", "timeout", "priority", "queue", "tags", "concurrency", "by", "trigger", "graph", "test")
_PUBLIC = ("key", "version", *_ALL[:8])
_TAGS_BYTES_MAX = 64 * 1024  # tags are read with every list of runs


def checked_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with times in seconds; InvalidInput or InvalidDefinition names the wrong one."""
    for name in options:
        if name not in _ALL:
            raise InvalidInput(
                f"start has no option {excerpt(name)}", hint=did_you_mean_one_of(name, _PUBLIC)
            )
    options["delay"] = seconds(options.get("delay", 0), name="delay")
    options["timeout"] = timeout_seconds(options.get("timeout"))
    if options.get("priority") is not None:
        checked_priority(options["priority"], InvalidInput)
    options["by"] = checked_text(options.get("by", ""), "by")
    default = "test" if options.get("test") else "api"
    options["trigger"] = checked_text(options.get("trigger", ""), "trigger") or default
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
    limited(PLAIN.encode(tags), "the tags", _TAGS_BYTES_MAX)


def _check_concurrency(value: object) -> None:
    """Check before the write: every worker reads the value, so a wrong one would stop them all."""
    hint = 'Concurrency("customer/7", 1); for all runs of a workflow: @workflow(concurrency=10)'
    if not isinstance(value, Concurrency) or value.hold not in ("active", "run"):
        raise InvalidInput(f"concurrency is {excerpt(value)}", hint=hint)
    checked_text(value.key, "key of concurrency")
    if not value.key:
        raise InvalidInput("concurrency has no key", hint=hint)
    whole_number(value.limit, "limit of concurrency", 1, 10**9, wrong=InvalidInput)


def checked_inputs(inputs: object) -> list[Any]:
    if not isinstance(inputs, Iterable):
        raise InvalidInput(f"inputs is {excerpt(inputs)}", hint="give a list with one input for each run")
    return list(inputs)


def checked_keys(keys: object, inputs: Sequence[Any]) -> Sequence[str]:
    """Return one key for each input."""
    if keys is None:
        return [""] * len(inputs)
    if isinstance(keys, str) or not isinstance(keys, Sequence) or len(keys) != len(inputs):
        raise InvalidInput(
            f"{len(inputs)} inputs and keys={excerpt(keys)}", hint="give one key for each input, '' for none"
        )
    return keys


def checked_moment(moment: object, name: str, default: float) -> float:
    """Return a moment as seconds since 1970."""
    if moment is None:
        return default
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        return moment.timestamp()
    if isinstance(moment, int | float) and not isinstance(moment, bool) and not math.isnan(moment):
        return float(moment)
    raise InvalidInput(
        f"{name} is {excerpt(moment)}", hint="pass seconds since 1970, or a datetime with a time zone"
    )
