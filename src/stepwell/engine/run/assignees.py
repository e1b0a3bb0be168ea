"""Assignees: the people that an approval asks. The commit that asks them notifies them."""

from __future__ import annotations

import msgspec

from stepwell.domain.notifications import APPROVAL, PendingNotification
from stepwell.engine.run.port import RunParts


def notify_assignees(run: RunParts, path: str) -> None:
    """Notify the assignees of the approval at this path of the event that was just drafted."""
    channel = run.services.approvals_channel
    if not channel:
        return
    seq = run.writer.barrier
    run.writer.notify(
        PendingNotification(
            id=f"{run.run_id}/{seq}",
            kind=APPROVAL,
            channel=channel,
            body=msgspec.json.encode({"path": path, "seq": seq}),
            workspace=run.journal.accepted.workspace,
            run_id=run.run_id,
        ),
        run.services.notifier.notify_work,
    )
