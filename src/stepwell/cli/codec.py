"""The codec of a database: from `--codec` or the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from stepwell.cli.source import load
from stepwell.errors import SettingsInvalid, excerpt
from stepwell.store.base import Store
from stepwell.store.encoded import encoded
from stepwell.store.open import open_store
from stepwell.store.payloads import Encryption, PayloadCodec

_HINT = "name the variable that holds the codec, in a module or file: --codec app.keys:codec"


def named_codec(text: str = "", environment: Mapping[str, str] = os.environ) -> PayloadCodec | None:
    """Return the codec from the option, else STEPWELL_CODEC, else STEPWELL_ENCRYPTION_KEY, else None."""
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
    codec: PayloadCodec | None = getattr(load(module), name, None)
    if codec is None:
        raise SettingsInvalid(f"{module} has no {name}", hint=_HINT)
    return codec


def store_of(database: str, codec: PayloadCodec | None) -> Store:
    """Return the store, not opened yet. A plain database stays plain: only workers begin to encode."""
    store = open_store(database)
    return store if codec is None else encoded(store, codec, begins=False)
