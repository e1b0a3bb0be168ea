"""Failures of nodes: with the codes that graphs route by."""

from __future__ import annotations

from typing import Any

from stepwell.errors import StepError


class NodeError(StepError):
    """A node failed: `code` is what error edges, retries and joins look at.

    `config=True` is the author's mistake ("fix your node"): trying again cannot help. The rest is
    run time ("something went wrong") and is tried again.
    """

    code = "NODE_FAILED"

    def __init__(
        self, code: str = "", message: str = "", *, hint: str = "", config: bool = False, **context: Any
    ) -> None:
        super().__init__(message or code, hint=hint, **context)
        if code:
            self.code = code  # type: ignore[misc]  # a node's codes are data, not classes
        self.config = config
        self.permanent = config  # so the log says it too: containers around it do not try again either


class NodeConfigError(NodeError):
    """The node is configured wrongly; it was not tried again."""

    code = "NODE_CONFIG"

    def __init__(self, message: str = "", *, code: str = "", hint: str = "", **context: Any) -> None:
        super().__init__(code, message, hint=hint or "fix the node's configuration", config=True, **context)
