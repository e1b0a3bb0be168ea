"""Start rates of the SQLite store: those that were set, and windows, counted where runs start."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.rates import (
    Ledger,
    RatedAnswer,
    RatedStart,
    StoredRate,
    WindowKey,
    admitted,
    keys_of,
)
from stepwell.store.sqlite.session import Session, as_list
from stepwell.store.sqlite.starts import existing_runs, start


def start_within(session: Session, calls: Sequence[RatedStart]) -> Sequence[RatedAnswer]:
    rows = {
        WindowKey(name, seconds): starts
        for name, seconds, starts in session.rows("read_windows", as_list(keys_of(calls)))
    }
    existing = set(existing_runs(session, [run for call in calls for run in call.runs]))
    ledger = Ledger(rows, session.now)
    full = admitted(calls, ledger, existing)
    changed = ledger.changed()
    if changed:
        session.many("put_window", [(*key, starts, until) for key, starts, until in changed])
        session.run("drop_windows", session.now)
    started = iter(
        start(session, [call.runs for call, refusal in zip(calls, full, strict=True) if refusal is None])
    )
    return [next(started) if refusal is None else refusal for refusal in full]


def put_start_rate(session: Session, rate: StoredRate) -> None:
    session.run("put_start_rate", *rate)


def drop_start_rate(session: Session, per: str, seconds: float) -> bool:
    return session.row("drop_start_rate", per, seconds) is not None


def read_start_rates(session: Session) -> list[StoredRate]:
    return [StoredRate(*row) for row in session.rows("read_start_rates")]
