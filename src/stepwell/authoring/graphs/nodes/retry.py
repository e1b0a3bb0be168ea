"""NodeRetry: a node's `retry` as a Retry of the engine.

The graph's words are Retry's with units and JSON's case: maxAttempts is `attempts`, delayMs `delay`,
maxDelayMs `max_delay`, nonRetryable `never`; `backoff` has the same three values.
"""

from __future__ import annotations

from dataclasses import dataclass

from stepwell.authoring.graphs.errors import NodeConfigError, NodeError
from stepwell.authoring.graphs.nodes.node_data import RetryData
from stepwell.domain.retry import ONCE, RemoteError, Retry, class_name
from stepwell.errors import StepwellError

_JITTER = 0.5


@dataclass(frozen=True, slots=True)
class NodeRetry(Retry):
    """Distinguishes errors by their code; a configuration error is never retried."""

    never_codes: tuple[str, ...] = ()

    def wait_after(self, failures: int, error: BaseException, chance: float) -> float | None:
        if isinstance(error, NodeError) and error.config:
            return None
        if isinstance(error, RemoteError):  # its classes are known by name only
            if class_name(NodeConfigError) in error.kinds or error.code in self.never_codes:
                return None
        elif _code_of(error) in self.never_codes:
            return None
        return Retry.wait_after(self, failures, error, chance)


def _code_of(error: BaseException) -> str:
    return error.code if isinstance(error, StepwellError) else type(error).__name__


DEFAULT = NodeRetry(3, 1.0, "exponential", 30.0)


def retry_of(data: RetryData | None, default: Retry = ONCE) -> Retry:
    if data is None:
        return default
    return NodeRetry(
        data.max_attempts,
        data.delay_ms / 1000,
        data.backoff,
        data.max_delay_ms / 1000,
        _JITTER if data.jitter else 0.0,
        never_codes=tuple(data.non_retryable),
    )
