"""Schedule: the times at which a workflow runs, and what happens to times that were missed.

The times are slots. A slot belongs to the schedule, not to the moment at which somebody looks, so the key
of its run is the same for every scheduler. All slots are in seconds since 1970, in UTC.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, NamedTuple, get_args
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from stepwell.domain.suggest import did_you_mean
from stepwell.domain.triggers.cron import cron_fault, in_words, next_time
from stepwell.errors import BadCron, BadTimeZone, InvalidInput, excerpt

Overlap = Literal["skip", "queue", "allow"]
Missed = Literal["skip", "one", "all"]

EVERY_MIN = 1.0
LATE_SECONDS = 60.0  # seconds; a slot that is later than this was missed
MISSED_MAX = 100  # missed slots that are made up for; earlier ones are skipped
SLOTS_AT_ONCE = 10  # slots of one schedule in one transaction
COUNTED_MAX = 1000  # skipped slots that are counted one by one
SCHEDULE_KNOWN = {  # the names that an input may refer to, with an example of each
    "slot": "2026-01-01T00:00:00Z",
    "local": "2026-01-01T00:00:00+00:00",
    "date": "2026-01-01",
    "name": "",
}
_WINDOW = 3600.0


class ScheduleSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a schedule is due: by `cron` in a time zone, or every `every` seconds from `anchor` on."""

    cron: str = ""
    every: float | None = None
    timezone: str = "UTC"
    anchor: float = 0.0
    overlap: Overlap = "queue"
    missed: Missed = "one"
    spread: float = 0.0  # seconds that starts are delayed at most, always by the same amount


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """The last slot that started no run, and why."""

    slot: float
    reason: str


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    started: int = 0  # runs
    skipped: int = 0  # slots that started no run
    last_slot: float | None = None  # the last slot that started a run
    last_skip: Skipped | None = None


class SlotDecision(NamedTuple):
    """What to do about slots that are due: which to start, how many are skipped and why, and the next one."""

    starts: list[float]
    skipped: int
    last_skipped: float | None
    reason: str
    next_slot: float | None


def checked_settings(settings: ScheduleSettings) -> ScheduleSettings:
    """Return the settings, or raise an error that names the wrong part."""
    if bool(settings.cron) == (settings.every is not None):
        raise InvalidInput(
            "a schedule is due by cron or by interval",
            hint='pass one of cron="0 2 * * *" and every="15m"',
            field="cron",
        )
    if settings.cron:
        fault = cron_fault(settings.cron)
        if fault:
            raise BadCron(f"cron {excerpt(settings.cron)}: {fault}", field="cron")
    elif settings.every is not None and settings.every < EVERY_MIN:
        raise InvalidInput(f"every is {settings.every:g} s", hint=f"at least {EVERY_MIN:g} s", field="every")
    for name, kind in (("overlap", Overlap), ("missed", Missed)):
        if getattr(settings, name) not in get_args(kind):
            words = ", ".join(get_args(kind))
            raise InvalidInput(
                f"{name} is {excerpt(getattr(settings, name))}", hint=f"use one of: {words}", field=name
            )
    zone(settings.timezone)
    return settings


def zone(name: str) -> ZoneInfo:
    """Return the time zone of that name. BadTimeZone suggests a similar name."""
    if name not in zones():
        close = did_you_mean(name, zones())
        raise BadTimeZone(f"no time zone is called {excerpt(name)}", hint=close, field="timezone")
    return ZoneInfo(name)


@lru_cache(maxsize=1)
def zones() -> frozenset[str]:
    return frozenset(available_timezones())


def next_slot(settings: ScheduleSettings, after: float) -> float | None:
    """Return the first slot after that time, or None."""
    if settings.every is not None:
        count = math.floor((after - settings.anchor) / settings.every) + 1
        slot = settings.anchor + count * settings.every
        return slot if slot > after else slot + settings.every
    moment = next_time(settings.cron, datetime.fromtimestamp(after, zone(settings.timezone)))
    return None if moment is None else moment.timestamp()


def slots(settings: ScheduleSettings, after: float) -> Iterator[float]:
    """Yield the slots after that time, in order."""
    slot = next_slot(settings, after)
    while slot is not None:
        yield slot
        slot = next_slot(settings, slot)


def spread_of(settings: ScheduleSettings, id: str) -> float:
    """Return by how much the schedule with this id starts after its slots."""
    if not settings.spread:
        return 0.0
    part = int.from_bytes(hashlib.blake2b(id.encode(), digest_size=4).digest(), "big") / 2**32
    return settings.spread * part


def decide(settings: ScheduleSettings, slot: float, now: float, *, live: bool) -> SlotDecision:
    """Decide about the slots from `slot` to `now`. `live`: the last run has not ended.

    The last slot is missed if it is LATE_SECONDS late. The others are missed because a later one is due.
    """
    starts, skipped, last_skipped, reason = [slot], 0, None, ""
    following = next_slot(settings, slot)
    if following is not None and following <= now:
        wanted = MISSED_MAX if settings.missed == "all" else 1
        starts = _latest(settings, slot, now, wanted + 1)
        following = next_slot(settings, starts[-1])
        if len(starts) > wanted:
            last_skipped, reason = starts.pop(0), "missed"
            skipped = _count(settings, slot, starts[0])
    if settings.missed == "skip" and now - starts[-1] > LATE_SECONDS:
        skipped, last_skipped, reason = skipped + 1, starts.pop(), "missed"
    if len(starts) > SLOTS_AT_ONCE:
        starts, following = starts[:SLOTS_AT_ONCE], starts[SLOTS_AT_ONCE]
    kept = starts if settings.overlap != "skip" else [] if live else starts[:1]
    if len(kept) < len(starts):
        skipped, last_skipped, reason = skipped + len(starts) - len(kept), starts[-1], "overlap"
    return SlotDecision(kept, skipped, last_skipped, reason, following)


def _latest(settings: ScheduleSettings, slot: float, now: float, wanted: int) -> list[float]:
    """Return the last slots from `slot` to `now`, looking back no further than needed."""
    window = _WINDOW
    while True:
        begin = max(slot, now - window)
        latest = [] if begin > slot else [slot]
        for each in slots(settings, begin):
            if each > now:
                break
            latest.append(each)
        if len(latest) >= wanted or begin <= slot:
            return latest[-wanted:]
        window *= 4


def _count(settings: ScheduleSettings, first: float, end: float) -> int:
    """Return how many slots there are from `first` to before `end`; COUNTED_MAX if there are more."""
    if settings.every is not None:
        return max(0, round((end - first) / settings.every))
    count = 0
    slot: float | None = first
    while slot is not None and slot < end and count < COUNTED_MAX:
        count += 1
        slot = next_slot(settings, slot)
    return count


def described(settings: ScheduleSettings) -> str:
    """Return the schedule in words: "At 02:30 on Monday through Friday, Europe/Berlin"."""
    if settings.every is not None:
        return f"Every {_interval(settings.every)}"
    return f"{in_words(settings.cron)}, {settings.timezone}"


def _interval(seconds: float) -> str:
    for unit, name in ((604_800, "week"), (86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        if seconds % unit == 0:
            count = int(seconds // unit)
            return name if count == 1 else f"{count} {name}s"
    return f"{seconds:g} seconds"


def slot_text(slot: float) -> str:
    """Return the slot as keys and inputs show it: ISO 8601 in UTC."""
    moment = datetime.fromtimestamp(slot, UTC)
    text = moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def slot_key(id: str, slot: float) -> str:
    """Return the idempotency key of the run of a slot, which is the same for every scheduler."""
    return f"sched/{id}/{slot_text(slot)}"
