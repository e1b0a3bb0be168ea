"""The codec that a person names for a database: `--codec`, or a variable of the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from stepwell.cli.source import load
from stepwell.errors import SettingsInvalid, excerpt
from stepwell.store.base import Store
from stepwell.store.encoded import encoded
from stepwell.store.open import open_store
from stepwell.store.payloads import Encryption, PayloadCodec

_HINT = "name a variable of a module or file that holds the codec: --codec app.keys:codec"


def named_codec(text: str = "", environment: Mapping[str, str] = os.environ) -> PayloadCodec | None:
    """The option wins over STEPWELL_CODEC, that over STEPWELL_ENCRYPTION_KEY; None: nothing is said."""
    text = text or environment.get("STEPWELL_CODEC", "")
    if text:
        return _variable(text)
    keys = environment.get("STEPWELL_ENCRYPTION_KEY", "")
    try:
        return Encryption.from_text(keys) if keys else None
    except SettingsInvalid as error:
        raise SettingsInvalid(f"STEPWELL_ENCRYPTION_KEY: {error.message}", hint=error.hint) from None


def _variable(text: str) -> PayloadCodec:
    module, _, name = text.rpartition(":")
    if not module or not name:
        raise SettingsInvalid(f"the codec is {excerpt(text)}", hint=_HINT)
    found: PayloadCodec | None = getattr(load(module), name, None)
    if found is None:
        raise SettingsInvalid(f"{module} has no {name}", hint=_HINT)
    return found


def store_of(database: str, codec: PayloadCodec | None) -> Store:
    """The store, not opened yet. One that holds plain runs stays plain: only workers change that."""
    store = open_store(database)
    return store if codec is None else encoded(store, codec, begins=False)
