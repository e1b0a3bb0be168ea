"""Search: lists of runs and open waits of a workspace, and how many runs there are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack, cast

import msgspec
from msgspec.structs import replace

from stepwell.client.options import HistogramOptions, ListOptions, checked_moment
from stepwell.client.store_access import StoreAccess
from stepwell.domain.access import AuditEntry
from stepwell.domain.approvals import denies
from stepwell.domain.commit import NEVER, RunFilter, RunRow
from stepwell.domain.events import Event, Received, WaitEnded, WaitOpened, WaitReassigned
from stepwell.domain.ids import RunId
from stepwell.domain.search import (
    WAITS,
    BucketFilter,
    DecidedFilter,
    DecidedRow,
    Page,
    WaitFilter,
    WaitRow,
    bounds_of,
    decided_place,
    place_of,
    wait_place,
    words_of,
)
from stepwell.domain.state import OpenChoice, RunState, apply
from stepwell.domain.status import Status, checked_statuses
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.domain.text import checked_text
from stepwell.domain.whole_numbers import whole_number
from stepwell.errors import InvalidInput, excerpt

LIMIT_MAX = 100_000
BUCKETS_MAX = 500
_APPROVALS_READ = 200  # open approvals that are read at once to find those of an assignee
_TAGS_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitInfo:
    """An open wait of some run that somebody can answer."""

    run: str
    workflow: str
    number: int  # the number of the run, within its workflow
    path: str
    what: str  # signal | event | approval | trigger
    name: str
    key: str = ""
    title: str = ""
    assignees: tuple[str, ...] = ()
    form: Any = None  # the JSON Schema of its answer
    choices: tuple[OpenChoice, ...] = ()  # for a trigger: the possible transitions
    opened_at: float = 0.0
    due_at: float | None = None
    required: int = 1  # for an approval: the number of people who must approve
    bar_starter: bool = False  # bars the person who started the run


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedInfo:
    """An approval of some run that people decided, or that timed out."""

    run: str
    workflow: str
    number: int  # the number of the run, within its workflow
    path: str
    name: str
    title: str = ""
    decision: str = ""  # approved | denied | timed_out; '': not readable here
    by: str = ""
    reason: str = ""
    answer: Any = None
    opened_at: float = 0.0
    decided_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts:
    """How many runs there are: in all, by status, and by status for each workflow and queue."""

    total: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    workflows: dict[str, dict[str, int]] = field(default_factory=dict)
    queues: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBucket:
    """How many runs were created in the bucket that begins at `start`, by status."""

    start: float
    statuses: dict[str, int] = field(default_factory=dict)


class Search:
    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    async def runs(self, **filter: Unpack[ListOptions]) -> Page[RunRow]:
        matching, before = checked_filter(filter)
        limit = matching.limit
        matching = replace(matching, workspace=self._access.workspace, limit=limit + 1)
        matching = replace(matching, before=await self._place(before, matching))
        bounds_of(matching)
        rows = await self._access.store.list_runs(matching)
        more = len(rows) > limit > 0
        return Page(rows[:limit], place_of(rows[limit - 1], matching) if more else "")

    async def _place(self, before: str, filter: RunFilter) -> str:
        """`before` may also be the id of the last run that was seen."""
        if not before or "/" in before or filter.prefix:
            return before
        row = await self._access.store.read_run(RunId(before))
        if row is None or row.workspace != filter.workspace:
            raise InvalidInput(
                f"before is {excerpt(before)}, and there is no such run",
                hint="pass the `next` of the page before",
            )
        return place_of(row, filter)

    async def counts(self, *, workflow: str, queue: str) -> RunCounts:
        checked_text(workflow, "workflow")
        checked_text(queue, "queue")
        counts = RunCounts()
        total = 0
        for row in await self._access.store.count_runs(self._access.workspace):
            if workflow not in ("", row.workflow) or queue not in ("", row.queue):
                continue
            total += row.runs
            for by_status in (
                counts.statuses,
                counts.workflows.setdefault(row.workflow, {}),
                counts.queues.setdefault(row.queue, {}),
            ):
                by_status[row.status.value] = by_status.get(row.status.value, 0) + row.runs
        return RunCounts(
            total=total, statuses=counts.statuses, workflows=counts.workflows, queues=counts.queues
        )

    async def histogram(self, **asked: Unpack[HistogramOptions]) -> list[RunBucket]:
        filter, wanted = checked_histogram(asked, now=await self._access.store.now())
        filter = replace(filter, workspace=self._access.workspace)
        buckets = empty_buckets(filter)
        for count in await self._access.store.count_buckets(filter):
            if not wanted or count.status in wanted:
                buckets[count.bucket].statuses[count.status.value] = count.runs
        return buckets

    async def waits(self, *, what: str | Sequence[str], name: str, before: str, limit: int) -> Page[WaitInfo]:
        whole_number(limit, "limit", 0, LIMIT_MAX, wrong=InvalidInput)
        rows = await self._access.store.list_waits(
            self._open_waits(checked_whats(what), name, before, limit + 1)
        )
        more = len(rows) > limit > 0
        return Page([_info(row) for row in rows[:limit]], wait_place(rows[limit - 1]) if more else "")

    def _open_waits(self, whats: Sequence[str], name: str, before: str, limit: int) -> WaitFilter:
        return WaitFilter(
            workspace=self._access.workspace,
            whats=whats,
            name=checked_text(name, "name"),
            before=checked_text(before, "before"),
            limit=limit,
        )

    async def approvals(
        self, *, name: str, assignee: str, roles: Collection[str], before: str, limit: int
    ) -> Page[WaitInfo]:
        """For an assignee, this includes approvals without assignees, which everybody may decide."""
        names = {checked_text(assignee, "assignee"), *(f"role:{checked_text(r, 'role')}" for r in roles)} - {
            ""
        }
        if not names:
            return await self.waits(what="approval", name=name, before=before, limit=limit)
        whole_number(limit, "limit", 0, LIMIT_MAX, wrong=InvalidInput)
        approvals: Page[WaitInfo] = Page()
        place, more = before, limit > 0
        while more and len(approvals) < limit:
            # As much for the last one that is wanted as for the first: most may be for others.
            filter = self._open_waits(("approval",), name, place, max(limit, _APPROVALS_READ))
            rows = await self._access.store.list_waits(filter)
            unread = len(rows)
            for row in rows:
                place, wait, unread = wait_place(row), _info(row), unread - 1
                if not wait.assignees or names.intersection(wait.assignees):
                    approvals.append(wait)
                    if len(approvals) == limit:
                        break
            more = unread > 0 or len(rows) == filter.limit
        approvals.next = place if more else ""
        return approvals

    async def decided(self, *, before: str, limit: int) -> Page[DecidedInfo]:
        whole_number(limit, "limit", 0, LIMIT_MAX, wrong=InvalidInput)
        filter = DecidedFilter(
            workspace=self._access.workspace, before=checked_text(before, "before"), limit=limit + 1
        )
        rows = await self._access.store.list_decided(filter)
        more = len(rows) > limit > 0
        return Page([_decided(row) for row in rows[:limit]], decided_place(rows[limit - 1]) if more else "")

    async def audit(self, *, before: str, limit: int) -> Page[AuditEntry]:
        whole_number(limit, "limit", 0, LIMIT_MAX, wrong=InvalidInput)
        place = checked_text(before, "before")
        rows = await self._access.store.list_audit(self._access.workspace, before=place, limit=limit + 1)
        return Page(rows[:limit], rows[limit - 1].id if len(rows) > limit > 0 else "")


def checked_filter(filter: ListOptions) -> tuple[RunFilter, str]:
    """Return the filter of a list of runs, and `before`; checked alike for a database and a server."""
    for name in filter:
        if name not in ListOptions.__annotations__:
            names = ListOptions.__annotations__
            raise InvalidInput(f"runs has no filter {excerpt(name)}", hint=did_you_mean_one_of(name, names))

    def text(name: str) -> str:
        return checked_text(cast(Any, filter).get(name, ""), name)

    wanted = RunFilter(
        workflow=text("workflow"),
        version=text("version"),
        queue=text("queue"),
        statuses=checked_statuses(filter.get("status", ())),
        key=text("key"),
        prefix=text("key_prefix"),
        id_prefix=text("id_prefix"),
        parent=text("parent"),
        trigger=text("trigger"),
        tags=_checked_tags(filter.get("tags")),
        words=_checked_words(filter.get("error", "")),
        since=checked_moment(filter.get("since"), "since", 0.0),
        until=checked_moment(filter.get("until"), "until", NEVER),
        limit=whole_number(filter.get("limit", 100), "limit", 0, LIMIT_MAX, wrong=InvalidInput),
    )
    return wanted, text("before")


def checked_histogram(asked: HistogramOptions, *, now: float) -> tuple[BucketFilter, tuple[Status, ...]]:
    """Return the filter and the statuses to count; checked alike for a database and a server."""
    for name in asked:
        if name not in HistogramOptions.__annotations__:
            names = HistogramOptions.__annotations__
            raise InvalidInput(
                f"histogram has no option {excerpt(name)}", hint=did_you_mean_one_of(name, names)
            )
    if asked.get("since") is None:
        raise InvalidInput("histogram needs since", hint="say when it begins", field="since")
    since = checked_moment(asked["since"], "since", 0.0)
    until = checked_moment(asked.get("until"), "until", now)
    buckets = whole_number(asked.get("buckets", 60), "buckets", 1, BUCKETS_MAX, wrong=InvalidInput)
    if not since < until:
        raise InvalidInput("histogram ends before it begins", hint="since comes before until", field="until")

    def text(name: str) -> str:
        return checked_text(cast(Any, asked).get(name, ""), name)

    filter = BucketFilter(
        workflow=text("workflow"),
        version=text("version"),
        queue=text("queue"),
        since=since,
        width=(until - since) / buckets,
        buckets=buckets,
    )
    return filter, tuple(checked_statuses(asked.get("status", ())))


def empty_buckets(filter: BucketFilter) -> list[RunBucket]:
    return [RunBucket(start=filter.since + filter.width * place) for place in range(filter.buckets)]


def _info(row: WaitRow) -> WaitInfo:
    values: dict[str, Any] = {}
    if row.opened:
        state = RunState()
        fact = msgspec.json.decode(row.opened, type=WaitOpened)
        apply(state, Event(1, row.opened_at, row.path, 0, fact))
        wait = state.waits[row.path]
        values = {
            "title": wait.title,
            "assignees": tuple(wait.assignees),
            "form": wait.form,
            "choices": tuple(wait.choices),
            "required": wait.required,
            "bar_starter": wait.bar_starter,
        }
    if row.reassigned:
        values["assignees"] = tuple(msgspec.json.decode(row.reassigned, type=WaitReassigned).assignees)
    return WaitInfo(
        run=row.run_id,
        workflow=row.workflow,
        number=row.number,
        path=row.path,
        what=row.what,
        name=row.name,
        key=row.key,
        opened_at=row.opened_at,
        due_at=row.due_at,
        **values,
    )


def _decided(row: DecidedRow) -> DecidedInfo:
    values: dict[str, Any] = {}
    if row.opened:
        values["title"] = msgspec.json.decode(row.opened, type=WaitOpened).title
    if row.received:
        fact = msgspec.json.decode(row.received, type=Received)
        values |= {
            "decision": "denied" if denies(fact.payload) else "approved",
            "by": fact.by,
            "reason": fact.reason,
            "answer": msgspec.json.decode(fact.payload),
        }
    elif row.end:
        ended = msgspec.json.decode(row.end, type=WaitEnded)
        values["decision"] = "timed_out" if ended.outcome == "timed_out" else ""
    return DecidedInfo(
        run=row.run_id,
        workflow=row.workflow,
        number=row.number,
        path=row.path,
        name=row.name,
        opened_at=row.opened_at,
        decided_at=row.at,
        **values,
    )


def _checked_tags(tags: object) -> tuple[tuple[str, str], ...]:
    if tags is None:
        return ()
    if not isinstance(tags, Mapping) or any(
        not isinstance(text, str) for pair in tags.items() for text in pair
    ):
        raise InvalidInput(
            f"tags are {excerpt(tags)}", hint='names and values are text: tags={"customer": "7"}'
        )
    whole_number(len(tags), "the number of tags", 0, _TAGS_MAX, wrong=InvalidInput)
    return tuple(tags.items())


def _checked_words(error: object) -> tuple[str, ...]:
    if not isinstance(error, str):
        raise InvalidInput(f"error is {excerpt(error)}", hint="pass words of the error")
    words = words_of(error)
    if error and not words:
        raise InvalidInput(f"error is {excerpt(error)}, which has no words", hint="pass words of the error")
    return words


def checked_whats(what: object) -> tuple[str, ...]:
    names = (what,) if isinstance(what, str) else what
    if not isinstance(names, Sequence) or any(name not in WAITS for name in names):
        raise InvalidInput(f"what is {excerpt(what)}", hint=f"use some of {', '.join(WAITS)}")
    return tuple(dict.fromkeys(names)) or WAITS
