"""The step of `ai` nodes and `ask_model`: one request to a model, with its text as live events."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from stepwell.authoring.graphs.errors import NodeConfigError, NodeError
from stepwell.domain.program import StepContext
from stepwell.domain.secret import may_be_sent_to
from stepwell.errors import RetryAfter, SecretsKeyMissing, SecretUnreadable
from stepwell.outbound.client import OutboundClient
from stepwell.outbound.request import OutboundCredential
from stepwell.providers.client import ask
from stepwell.providers.errors import ModelError
from stepwell.providers.model_request import ModelRequest
from stepwell.providers.provider import Provider, Providers
from stepwell.secrets.opener import OpenedSecret

TOPIC = "ai"
_EVERY = 0.5  # seconds between live events of one request
_LONGEST_WAIT = 3600.0  # seconds that a provider may ask for


class ProviderBusy(NodeError, RetryAfter):
    """The provider said when to try again."""

    def __init__(self, seconds: float, code: str, message: str) -> None:
        NodeError.__init__(self, code, message)
        self.seconds = seconds


class LiveText:
    """The text of a reply as events of its run: the first after half a second, then at most two a second.

    Only whole words are sent, so that the redaction of secrets sees them whole.
    """

    def __init__(self, step: StepContext, clock: Callable[[], float]) -> None:
        self._step = step
        self._clock = clock
        self._pending = ""
        self._at = clock()

    def add(self, text: str) -> None:
        self._pending += text
        now = self._clock()
        if now - self._at >= _EVERY:
            rest = self._pending.split()[-1] if self._pending and not self._pending[-1].isspace() else ""
            whole = self._pending[: len(self._pending) - len(rest)]
            if whole:
                self._step.publish(TOPIC, {"text": whole})
                self._pending, self._at = rest, now


class ModelStep:
    """The step that sends one request to a model."""

    def __init__(
        self,
        providers: Callable[[], Providers],
        client: Callable[[], OutboundClient],
        secret: Callable[[str, str], Awaitable[OpenedSecret]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._providers = providers
        self._client = client
        self._secret = secret
        self._clock = clock

    async def ask(self, step: StepContext, config: dict[str, Any]) -> Any:
        """Send the request, and return the reply as JSON."""
        request = msgspec.convert(config, ModelRequest)
        try:
            provider = self._providers().named(request.provider)
            model = provider.model_for(request.model)
        except ModelError as error:
            raise _failed(error) from None
        step.details(model=model, turns=request.turn)
        try:
            reply = await ask(
                provider,
                request,
                http=self._client(),
                credential=await self._credential(step, provider),
                key=step.key,
                on_text=LiveText(step, self._clock).add,
            )
        except (SecretUnreadable, SecretsKeyMissing) as error:
            raise NodeConfigError(error.message, code=error.code, hint=error.hint) from None
        except ModelError as error:
            used = error.input_tokens, error.output_tokens
            if any(used):  # a refused or broken answer costs tokens too
                _count(step, *used, provider.cost(model, *used))
            raise _failed(error) from None
        _count(step, reply.input_tokens, reply.output_tokens, reply.cost)
        return msgspec.to_builtins(reply)

    async def _credential(self, step: StepContext, provider: Provider) -> OutboundCredential | None:
        """Return the header that this provider's protocol expects, for the hosts of the secret."""
        if not provider.credential:
            return None
        opened = await self._secret(step.run_id, provider.credential)
        if provider.kind == "anthropic" and opened.stored.use == "bearer":
            covers = partial(may_be_sent_to, opened.stored)
            return OutboundCredential(opened.stored.name, "x-api-key", opened.value, covers)
        return opened.credential


def _count(step: StepContext, input_tokens: int, output_tokens: int, cost: float) -> None:
    step.usage(input_tokens=input_tokens, output_tokens=output_tokens, cost=cost)


def _failed(error: ModelError) -> NodeError:
    if error.config:
        return NodeConfigError(error.message, code=error.code, hint=error.hint)
    if error.retry_after is not None and not error.permanent:
        return ProviderBusy(min(error.retry_after, _LONGEST_WAIT), error.code, error.message)
    failed = NodeError(error.code, error.message, hint=error.hint)
    failed.permanent = error.permanent
    return failed
