"""The step of `notify` nodes: one attempt to send through the channel that the node names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stepwell.authoring.graphs.errors import NodeConfigError, NodeError
from stepwell.authoring.graphs.nodes.notify import NAME
from stepwell.authoring.graphs.nodes.steps import providing_step
from stepwell.channels.errors import NotifyError
from stepwell.channels.notification import Notification, id_of
from stepwell.domain.program import StepContext
from stepwell.domain.steps import StepSpec
from stepwell.errors import RetryAfter
from stepwell.handlers.notify import AFTER_MAX

if TYPE_CHECKING:
    from stepwell.channels.channels import Channels


class NodeNotSentYet(NodeError, RetryAfter):
    """A notification of a node could not be sent, and the receiver said when to try again."""

    def __init__(self, error: NotifyError, seconds: float) -> None:
        NodeError.__init__(self, error.code, error.message, hint=error.hint)
        self.seconds = seconds


def notify_node_step(channels: Callable[[], Channels]) -> StepSpec:
    """Return the step of `notify` nodes, which sends through these channels."""

    async def call(step: StepContext, config: dict[str, Any]) -> Any:
        notification = Notification(
            id=id_of(step.key),
            subject=config["subject"],
            text=config["text"],
            to=tuple(config["to"]),
            data=config["data"],
        )
        try:
            return await channels().send(config["channel"], notification)
        except NotifyError as error:
            raise _node_error(error) from None

    return providing_step(NAME, call)


def _node_error(error: NotifyError) -> NodeError:
    if error.config:
        return NodeConfigError(error.message, code=error.code, hint=error.hint)
    if error.after is not None and not error.permanent:
        return NodeNotSentYet(error, min(error.after, AFTER_MAX))
    failed = NodeError(error.code, error.message, hint=error.hint)
    failed.permanent = error.permanent
    return failed
