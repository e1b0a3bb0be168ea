"""Providers as an operator describes them."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Engine
from stepwell.errors import SettingsInvalid
from stepwell.providers.errors import ModelError
from stepwell.providers.provider import Providers

pytestmark = pytest.mark.req("N25")
LOCAL = {"kind": "openai", "base_url": "http://127.0.0.1:9000/v1", "model": "small"}


@pytest.mark.parametrize(
    "described",
    [
        {},
        {"kind": "bard"},
        {**LOCAL, "api_key": "sk-123"},
        {**LOCAL, "base_url": "ftp://x/"},
        {**LOCAL, "base_url": "http://user:pass@host/"},
        {**LOCAL, "base_url": "http://host/#x"},
        {**LOCAL, "credential": "no spaces allowed"},
        {**LOCAL, "prices": {"small": {"input": -1, "output": 1}}},
        {**LOCAL, "prices": {"small": {"input": 1}}},
        {**LOCAL, "prices": {"small": {"input": float("nan"), "output": 1}}},
        "openai",
        None,
    ],
)
def test_a_wrong_description_is_refused_when_the_engine_is_made(described: Any) -> None:
    with pytest.raises(SettingsInvalid) as refusal:
        Engine(":memory:", providers={"local": described})

    assert "local" in refusal.value.message
    assert "sk-123" not in str(refusal.value)


@pytest.mark.parametrize("name", ["", "Local", "a b", "x" * 65, "-a"])
def test_a_wrong_name_is_refused(name: str) -> None:
    with pytest.raises(SettingsInvalid):
        Providers({name: LOCAL})


def test_providers_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_PROVIDER_LOCAL", '{"kind": "anthropic", "model": "m", "credential": "key"}')

    provider = Providers().named("local")

    assert (provider.kind, provider.credential) == ("anthropic", "key")
    assert provider.address == "https://api.anthropic.com"


def test_the_environment_must_have_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_PROVIDER_LOCAL", "openai")

    with pytest.raises(SettingsInvalid, match="STEPWELL_PROVIDER_LOCAL is not JSON"):
        Providers()


def test_without_a_name_the_only_provider_is_meant_or_the_default() -> None:
    two = Providers({"a": LOCAL, "default": {**LOCAL, "model": "big"}})

    assert Providers({"a": LOCAL}).named("").model == "small"
    assert two.named("").model == "big"
    with pytest.raises(ModelError, match="no provider is named") as refusal:
        Providers({"a": LOCAL, "b": LOCAL}).named("")
    assert refusal.value.code == "AI_PROVIDER"


def test_an_unknown_provider_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ModelError) as refusal:
        Providers({"local": LOCAL, "other": LOCAL}).named("locl")

    assert refusal.value.code == "AI_PROVIDER"
    assert "local" in refusal.value.hint


def test_only_offered_models_may_be_asked() -> None:
    provider = Providers({"local": {**LOCAL, "models": ["small", "large"]}})["local"]

    assert provider.model_for("") == "small"
    assert provider.model_for("large") == "large"
    with pytest.raises(ModelError) as refusal:
        provider.model_for("larg")
    assert (refusal.value.code, refusal.value.config) == ("AI_MODEL", True)
    assert "large" in refusal.value.hint


def test_a_model_must_be_named_somewhere() -> None:
    provider = Providers({"local": {"kind": "openai"}})["local"]

    with pytest.raises(ModelError, match="no model is named"):
        provider.model_for("")


def test_prices_are_for_a_million_tokens() -> None:
    described = {**LOCAL, "prices": {"small": {"input": 3, "output": 15}}}
    provider = Providers({"local": described})["local"]

    assert provider.cost("small", 1_000_000, 100_000) == pytest.approx(4.5)
    assert provider.cost("another", 1_000_000, 100_000) == 0.0
