"""Start rates of the SQLite store: windows, counted in the transaction that starts the runs."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.rates import Ledger, RatedAnswer, RatedStart, WindowKey, admitted, keys_of
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
