"""Remote steps: results, from the worker that executed the step to the run that waits."""

from __future__ import annotations

from stepwell.domain.commit import Claim, Message, Outcome
from stepwell.store.sqlite.messages import deliver
from stepwell.store.sqlite.session import Session


def finish_remote(session: Session, claim: Claim, result: Message) -> Outcome:
    if session.row("ticket_lease", claim.run_id, claim.path) != (claim.lease,):
        return Outcome.LOST
    session.run("delete_ticket", claim.run_id, claim.path)
    deliver(session, [[result]])
    return Outcome.OK
