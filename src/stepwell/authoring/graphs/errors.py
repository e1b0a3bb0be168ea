"""Errors of nodes, with the codes that graphs route by."""

from __future__ import annotations

from typing import Any

from stepwell.errors import StepError


class NodeError(StepError):
    """A node failed. Error edges, retries and joins look at `code`.

    `config=True` is a mistake of the author ("fix your node"): trying again cannot help. Other errors
    happen at run time ("something went wrong") and are retried.
    """

    code = "NODE_FAILED"

    def __init__(
        self, code: str = "", message: str = "", *, hint: str = "", config: bool = False, **context: Any
    ) -> None:
        super().__init__(message or code, hint=hint, **context)
        if code:
            self.code = code  # type: ignore[misc]  # a node's codes are data, not classes
        self.config = config
        self.permanent = config  # in the log too, so that containers around the node do not retry it


class NodeConfigError(NodeError):
    """The node's configuration is wrong; it was not retried."""

    code = "NODE_CONFIG"

    def __init__(self, message: str = "", *, code: str = "", hint: str = "", **context: Any) -> None:
        super().__init__(code, message, hint=hint or "fix the node's configuration", config=True, **context)
