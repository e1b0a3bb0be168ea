"""Provider: where to ask a model, as an operator configured it. A graph uses a name, never an address."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from stepwell.domain.secret import checked_secret_name
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import InvalidInput, SettingsInvalid, excerpt
from stepwell.outbound import url as outbound_url
from stepwell.outbound.errors import OutboundRefused
from stepwell.providers.errors import ModelError

PREFIX = "STEPWELL_PROVIDER_"
DEFAULT = "default"  # the provider of nodes that name none
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_ANY_PORT = range(1, 65536)  # the worker decides which ports are allowed
_ADDRESSES = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
_MILLION = 1_000_000


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model costs per million tokens."""

    input: float
    output: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / _MILLION


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service that runs models. `kind` is its protocol; many services use that of OpenAI."""

    kind: Literal["openai", "anthropic"]
    base_url: str = ""
    credential: str = ""  # name of a secret
    model: str = ""  # the model of nodes that name none
    models: tuple[str, ...] = ()  # models that may be asked; empty: any
    prices: Mapping[str, Price] = {}  # by model

    @property
    def address(self) -> str:
        return self.base_url or _ADDRESSES[self.kind]

    def model_for(self, wanted: str) -> str:
        """Return the model to ask. ModelError if there is none, or it may not be asked."""
        model = wanted or self.model
        if not model:
            raise ModelError(
                "AI_MODEL",
                "no model is named, and the provider has no default",
                hint="set model, or let an operator give the provider one",
                config=True,
            )
        if self.models and model not in self.models:
            raise ModelError(
                "AI_MODEL",
                f"the provider does not offer the model {excerpt(model)}",
                hint=did_you_mean_one_of(model, self.models) or f"it has: {', '.join(self.models)}",
                config=True,
            )
        return model

    def cost(self, model: str, input_tokens: int, output_tokens: int) -> float:
        """Return what these tokens cost; 0 for a model without a price."""
        price = self.prices.get(model)
        return 0.0 if price is None else price.of(input_tokens, output_tokens)


class Providers(Mapping[str, Provider]):
    """The providers of an engine, by name."""

    def __init__(self, described: Mapping[str, Provider | Mapping[str, Any]] | None = None) -> None:
        all_described = _from_env(os.environ) if described is None else described
        self._providers = {name: _checked(name, one) for name, one in all_described.items()}

    def __getitem__(self, name: str) -> Provider:
        return self._providers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._providers)

    def __len__(self) -> int:
        return len(self._providers)

    def named(self, name: str) -> Provider:
        """Return a provider; without a name, the only one or the one named `default`.

        ModelError if there is none.
        """
        if not name and len(self) == 1:
            return next(iter(self.values()))
        provider = self.get(name or DEFAULT)
        if provider is not None:
            return provider
        hint = did_you_mean_one_of(name, self) if name else ""
        if not hint:
            hint = f"an operator sets {PREFIX}{(name or DEFAULT).upper().replace('-', '_')}"
            hint += f"; here are: {', '.join(self)}" if self else ""
        what = f"there is no provider {excerpt(name)}" if name else "no provider is named"
        raise ModelError("AI_PROVIDER", f"{what} here", hint=hint, config=True)


def _from_env(env: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    providers: dict[str, Mapping[str, Any]] = {}
    for variable, text in env.items():
        if variable.startswith(PREFIX) and text:
            try:
                described = msgspec.json.decode(text)
            except msgspec.DecodeError as error:
                raise SettingsInvalid(
                    f"{variable} is not JSON: {error}", hint='write {"kind": "openai", "model": "..."}'
                ) from None
            providers[variable.removeprefix(PREFIX).lower()] = described
    return providers


def _checked(name: str, described: Provider | Mapping[str, Any]) -> Provider:
    if not _NAME.fullmatch(name):
        raise SettingsInvalid(f"a provider cannot be called {excerpt(name)}", hint="use a-z, 0-9, - and _")
    try:
        provider = described if isinstance(described, Provider) else msgspec.convert(described, Provider)
        outbound_url.parsed(provider.address, _ANY_PORT)
        if provider.credential:
            checked_secret_name(provider.credential)
    except (msgspec.ValidationError, OutboundRefused, InvalidInput) as error:
        message = error.message if isinstance(error, OutboundRefused | InvalidInput) else str(error)
        raise SettingsInvalid(
            f"the provider {name} is not valid: {message}",
            hint="it has kind (openai or anthropic), base_url, credential, model, models and prices",
        ) from None
    prices = [price for one in provider.prices.values() for price in (one.input, one.output)]
    if not all(0 <= price < float("inf") for price in prices):
        raise SettingsInvalid(f"the provider {name} has a negative price", hint="give 0 or more")
    return provider
