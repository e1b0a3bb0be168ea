"""Alerts: the problems that an operator wants reported, and what a check of one decides.

A check asks the database a question that an index answers, and gets findings. Findings with one subject (a
workflow or a queue) are one incident: it is reported when it begins, again after each `repeat`, and when it
is over. The decision is pure. The id of each report follows from the incident, so that a repeated check
reports nothing twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, get_args

import msgspec
from msgspec.structs import replace

from stepwell.domain.commit import DEFAULT_WORKSPACE
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import InvalidInput, excerpt

AlertKind = Literal["failed", "stuck", "overdue", "no_worker", "full_queue"]
ALERT_KINDS: tuple[AlertKind, ...] = get_args(AlertKind)
Moment = Literal["opened", "repeated", "resolved"]

FINDINGS_MAX = 100  # for one subject; more are not counted
SUBJECTS_MAX = 50  # open incidents of one alert
RUNS_SHOWN = 10
LOOKED_AT_MAX = 5000
EVERY_MIN = 1.0
DAY = 86_400.0
_AFTER = {"failed": 900.0, "stuck": 600.0, "overdue": 3600.0, "no_worker": 60.0, "full_queue": 0.0}


class AlertSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an alert looks for, and whom it notifies. Times are in seconds."""

    what: AlertKind
    workflow: str = ""  # for failed, stuck and overdue runs; '': all workflows
    queue: str = ""  # for no_worker and full_queue
    after: float = 0.0  # how long the problem must last; for failed, how far back it counts
    at_least: int = 1  # how many runs it takes
    channel: str = ""  # '': metrics only
    to: tuple[str, ...] = ()  # recipients; empty: those of the channel
    repeat: float = 4 * 3600.0
    every: float = 15.0  # between two checks


class Incident(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem that an alert found, from its beginning to its end."""

    subject: str  # the workflow or queue
    id: str
    since: float  # when it was first found
    opened: bool = False  # its beginning was reported
    reported_at: float = 0.0
    reports: int = 0
    count: int = 0
    runs: tuple[str, ...] = ()


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert as a store keeps it. `turn` counts its checks: only the latest check may write."""

    id: str
    name: str
    workspace: str = DEFAULT_WORKSPACE
    settings: bytes = b"{}"  # JSON of AlertSettings
    paused: bool = False
    check_at: float = 0.0
    turn: int = 0
    incidents: bytes = b"[]"
    created_at: float = 0.0
    created_by: str = ""


class TakenAlerts(NamedTuple):
    """Alerts that the caller must check now. The next one is due in `next_in` seconds (None: none is)."""

    rows: Sequence[Alert]
    next_in: float | None
    now: float


class AlertQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A question about runs or queues. `at` is the moment that separates what counts from what does not."""

    what: AlertKind
    workspace: str
    workflow: str = ""
    queue: str = ""
    at: float = 0.0
    limit: int = FINDINGS_MAX  # findings of each subject
    few: int = LOOKED_AT_MAX  # for stuck runs: how many live runs may be examined one by one


class LiveGroup(NamedTuple):
    """How many runs of one kind have not ended."""

    workflow: str
    version: str
    queue: str
    status: str
    n: int


class AlertFinding(NamedTuple):
    subject: str
    run_id: str
    at: float
    runs: int = 1


class Report(NamedTuple):
    """What to report about an incident."""

    incident: Incident
    moment: Moment

    @property
    def key(self) -> str:
        """A key that is the same for every attempt to send the report."""
        return f"{self.incident.id}/{self.moment}/{self.incident.reports}"


class AlertCheck(NamedTuple):
    incidents: tuple[Incident, ...]
    reports: tuple[Report, ...]


def few_and_many(groups: Iterable[LiveGroup], few: int) -> tuple[list[LiveGroup], list[str]]:
    """Divide workflows by their live runs: groups of those with few runs, and names of the others.

    The former have at most `few` runs together, so that each can be examined. For the others, late work is
    found by its time, after all that is older.
    """
    by_workflow: dict[str, list[LiveGroup]] = defaultdict(list)
    for group in groups:
        by_workflow[group.workflow].append(group)
    sizes = sorted((sum(group.n for group in same), workflow) for workflow, same in by_workflow.items())
    smallest: list[LiveGroup] = []
    others: list[str] = []
    for n, workflow in sizes:
        few -= n
        if few >= 0:
            smallest += by_workflow[workflow]
        else:
            others.append(workflow)
    return smallest, others


def oldest(findings: Iterable[Sequence[AlertFinding]], limit: int) -> list[AlertFinding]:
    """Return the oldest findings of each subject, at most `limit`, each run once."""
    kept: list[AlertFinding] = []
    for same in findings:
        runs: dict[str, AlertFinding] = {}
        for finding in sorted(same, key=lambda each: (each.at, each.run_id)):
            runs.setdefault(finding.run_id, finding)
        kept += list(runs.values())[:limit]
    return sorted(kept, key=lambda each: (each.at, each.run_id))


def settings_of(alert: Alert) -> AlertSettings:
    return msgspec.json.decode(alert.settings, type=AlertSettings)


def incidents_of(alert: Alert) -> tuple[Incident, ...]:
    return msgspec.json.decode(alert.incidents, type=tuple[Incident, ...])


def default_after(what: str) -> float:
    return _AFTER.get(what, 0.0)


def checked_alert(settings: AlertSettings) -> AlertSettings:
    """Return the settings. InvalidInput names the wrong field."""
    if settings.what not in ALERT_KINDS:
        raise InvalidInput(
            f"what is {excerpt(settings.what)}",
            hint=did_you_mean_one_of(str(settings.what), ALERT_KINDS),
            field="what",
        )
    about_queue = settings.what in ("no_worker", "full_queue")
    if about_queue and not settings.queue:
        raise InvalidInput(
            f"an alert for {settings.what} needs a queue", hint='such as queue="default"', field="queue"
        )
    if about_queue and settings.workflow:
        raise InvalidInput(f"an alert for {settings.what} takes no workflow", field="workflow")
    if settings.queue and not about_queue:
        raise InvalidInput(f"an alert for {settings.what} takes no queue", field="queue")
    least, most = (1, 1_000_000) if settings.what == "full_queue" else (1, FINDINGS_MAX)
    if isinstance(settings.at_least, bool) or not isinstance(settings.at_least, int):
        raise InvalidInput(f"at_least is {excerpt(settings.at_least)}", field="at_least")
    if not least <= settings.at_least <= most:
        raise InvalidInput(f"at_least is {settings.at_least}", hint=f"{least} to {most:,}", field="at_least")
    if settings.to and not settings.channel:
        raise InvalidInput("recipients need a channel", hint="pass channel=", field="channel")
    if settings.what == "failed" and settings.after < 2 * settings.every:
        raise InvalidInput(
            f"after is {settings.after:g} s, every {settings.every:g} s",
            hint="look back over two checks at least, or failures between them are missed",
            field="after",
        )
    for name, value, low, high in (
        ("after", settings.after, 0.0, 366 * DAY),
        ("repeat", settings.repeat, 60.0, 366 * DAY),
        ("every", settings.every, EVERY_MIN, DAY),
    ):
        if not low <= value <= high:
            raise InvalidInput(f"{name} is {value:g} s", hint=f"{low:g} s to {high:g} s", field=name)
    return settings


def query_of(alert: Alert, now: float) -> AlertQuery:
    settings = settings_of(alert)
    return AlertQuery(
        what=settings.what,
        workspace=alert.workspace,
        workflow=settings.workflow,
        queue=settings.queue,
        at=now - settings.after,
    )


def check(alert: Alert, findings: Sequence[AlertFinding], now: float) -> AlertCheck:
    """Decide which incidents there are now, and which to report."""
    settings = settings_of(alert)
    by_subject: dict[str, list[AlertFinding]] = defaultdict(list)
    for finding in findings:
        by_subject[finding.subject].append(finding)
    before = {incident.subject: incident for incident in incidents_of(alert)}
    incidents: list[Incident] = []
    reports: list[Report] = []
    for subject in [*before, *(subject for subject in by_subject if subject not in before)]:
        known, present = before.get(subject), by_subject.get(subject, [])
        count = sum(finding.runs for finding in present)
        if count < settings.at_least:
            if known is not None and known.opened:
                reports.append(Report(known, "resolved"))
            continue
        if known is None and len(incidents) >= SUBJECTS_MAX:
            continue
        # The turn makes the id unique to this incident, and the same if this check is repeated.
        fresh = Incident(subject=subject, id=f"{alert.id}/{alert.turn}/{len(incidents)}", since=now)
        shown = tuple(finding.run_id for finding in present[:RUNS_SHOWN] if finding.run_id)
        incident = replace(known or fresh, count=count, runs=shown)
        if _lasts(settings, incident, now) and (
            not incident.opened or now - incident.reported_at >= settings.repeat
        ):
            moment: Moment = "repeated" if incident.opened else "opened"
            incident = replace(incident, opened=True, reported_at=now, reports=incident.reports + 1)
            reports.append(Report(incident, moment))
        incidents.append(incident)
    return AlertCheck(tuple(incidents), tuple(reports))


def _lasts(settings: AlertSettings, incident: Incident, now: float) -> bool:
    """Return whether the problem has lasted long enough. Findings about runs are that old already."""
    if settings.what not in ("no_worker", "full_queue"):
        return True
    return now - incident.since >= settings.after
