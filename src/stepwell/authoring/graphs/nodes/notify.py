"""The `notify` node: a mail or a signed webhook through a named channel (`handlers/notify.py` sends it)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from stepwell.authoring.graphs.errors import NodeConfigError
from stepwell.authoring.graphs.expressions.limits import DEFAULT_LIMITS
from stepwell.authoring.graphs.expressions.values import text
from stepwell.authoring.graphs.nodes.node_data import Identifier, NodeData
from stepwell.authoring.graphs.nodes.node_type import ExpressionScope, NodeType, Now, Role
from stepwell.authoring.graphs.nodes.retry import NodeRetry
from stepwell.authoring.graphs.nodes.steps import outcome_of, provided_step
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.channels.errors import NotifyError
from stepwell.channels.notification import checked_recipient, checked_subject
from stepwell.errors import excerpt

NAME = "node:notify"
NOTIFY_SECONDS = 60.0
_RETRY = NodeRetry(5, 2.0, "exponential", 300.0)


class NotifyData(NodeData):
    """A message to people or to another service."""

    channel: Annotated[Identifier, Field(description="The name that an operator gave the channel.")]
    to: Annotated[
        list[str] | str,
        Field(
            description="E-mail addresses; one {{ }} may give the list. "
            "Left out: the recipients of the channel."
        ),
    ] = Field(default_factory=list)
    subject: Annotated[str, Field(description="The subject of a mail, on one line; may have {{ }}.")] = ""
    text: Annotated[str, Field(description="The text of a mail; may have {{ }}.")] = ""
    data: Annotated[
        Any, Field(description="What a webhook gets; may have {{ }}. Left out: the subject and the text.")
    ] = None


class NotifyWork:
    """One notification, built from the node's templates."""

    def __init__(self, data: NotifyData, compiler: NodeCompiler) -> None:
        self._channel = data.channel
        self._to = compiler.template(data.to, "to")
        self._subject = compiler.template(data.subject, "subject")
        self._text = compiler.template(data.text, "text")
        self._data = compiler.template(data.data, "data")
        self._check(data, compiler)
        seconds = data.timeout_seconds(NOTIFY_SECONDS)
        self.spec = provided_step(NAME, data, retry=_RETRY, seconds=seconds)

    @staticmethod
    def _check(data: NotifyData, compiler: NodeCompiler) -> None:
        """Report what can be known when the graph is saved."""
        if not (data.subject or data.text or data.data is not None):
            compiler.problem(
                "INVALID_DATA", "the notification says nothing", "text", "give a subject, a text or data"
            )
        fixed = [("subject", data.subject)]
        to = [data.to] if isinstance(data.to, str) else data.to
        fixed += [("to" if isinstance(data.to, str) else f"to.{i}", one) for i, one in enumerate(to)]
        for field, one in fixed:
            if one and "{{" not in one:
                try:
                    _ = checked_subject(one) if field == "subject" else checked_recipient(one)
                except NotifyError as error:
                    compiler.problem(error.code, error.message, field, error.hint)

    def prepare(self, scope: ExpressionScope, now: Now) -> tuple[tuple[Any, ...], dict[str, Any]]:
        to = self._to.render(scope, now)
        listed = to if isinstance(to, list) else [] if to in ("", None) else [to]
        for one in listed:
            if not isinstance(one, str):
                raise NodeConfigError(f"{excerpt(one)} is not an e-mail address", code="RECIPIENT_INVALID")
        call = {
            "channel": self._channel,
            "to": listed,
            "subject": _text(self._subject.render(scope, now)),
            "text": _text(self._text.render(scope, now)),
            "data": self._data.render(scope, now),
        }
        return (call,), {}

    outcome = staticmethod(outcome_of)


def _text(value: Any) -> str:
    """Return a value as text. A value that is a single {{ }} keeps its type until then."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, Mapping | list):
        raise NodeConfigError("the subject and the text of a notification are texts", code="INVALID_DATA")
    return text(value, DEFAULT_LIMITS)


NOTIFY = NodeType(
    name="notify",
    data=NotifyData,
    role=Role.WORK,
    compile=NotifyWork,
    text="sends a mail or a signed webhook",
)
