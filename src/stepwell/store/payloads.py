"""Payload codecs: compress or encrypt values between the engine and the disk.

A codec turns JSON bytes into other bytes and back. It marks its output with a first byte that no JSON
begins with, so values written before the codec was switched on stay readable. Your own codec, if it only
compresses and keeps nothing secret, should have an attribute `hides = False`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Mapping
from typing import Protocol

from stepwell.errors import CodecMissing, SettingsInvalid, StoreUnusable, excerpt

_COMPRESSED = b"\x01"
_ENCRYPTED = b"\x02"
_COMPRESS_FROM = 512  # bytes; below that it costs more than it saves
_NONCE = 12
_NEW_KEY = "openssl rand -base64 32"


class PayloadCodec(Protocol):
    def encode(self, data: bytes) -> bytes: ...

    def decode(self, data: bytes) -> bytes:
        """Return the JSON; data that this codec did not write is returned unchanged."""
        ...


def hides(codec: PayloadCodec) -> bool:
    """True if its output reveals nothing to a reader without the codec."""
    return bool(getattr(codec, "hides", True))


class Compression:
    """zlib, for values of half a kilobyte or more."""

    hides = False

    def encode(self, data: bytes) -> bytes:
        return data if len(data) < _COMPRESS_FROM else _COMPRESSED + zlib.compress(data, 1)

    def decode(self, data: bytes) -> bytes:
        try:
            return zlib.decompress(data[1:]) if data[:1] == _COMPRESSED else data
        except zlib.error as error:
            raise StoreUnusable(f"a compressed value is damaged: {error}") from None


class Encryption:
    """AES-256-GCM at rest. `keys` are 32 bytes each, by name; new values use `current`.

    To rotate, give the new key to every process, then make it current; keep the old one as long as you
    keep runs written with it. The nonce is derived from key and value, so writing the same value again
    gives the same bytes: a commit that is sent twice is recognised. Equal values under one key look equal.
    """

    hides = True

    def __init__(self, keys: Mapping[str, bytes], *, current: str) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if current not in keys:
            raise SettingsInvalid(
                f"there is no key {excerpt(current)}", hint=f"keys are {', '.join(sorted(keys))}"
            )
        for name, key in keys.items():
            if len(key) != 32 or not 0 < len(name.encode()) < 256:
                raise SettingsInvalid(f"key {excerpt(name)} must be 32 bytes under a short name")
        self._keys = dict(keys)
        self._ciphers = {name: AESGCM(key) for name, key in keys.items()}
        self._current = current

    def encode(self, data: bytes) -> bytes:
        name = self._current
        nonce = hashlib.blake2b(
            data, key=self._keys[name], digest_size=_NONCE, person=b"stepwell nonce"
        ).digest()
        label = name.encode()
        return (
            _ENCRYPTED + bytes([len(label)]) + label + nonce + self._ciphers[name].encrypt(nonce, data, label)
        )

    def decode(self, data: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        if data[:1] != _ENCRYPTED:
            return data
        size = data[1] if len(data) > 1 else 0
        label, nonce, text = data[2 : 2 + size], data[2 + size :][:_NONCE], data[2 + size + _NONCE :]
        name = label.decode("utf-8", "replace")
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise CodecMissing(
                f"a value was encrypted with key {excerpt(name)}, which this process does not have",
                hint="add that key to Encryption(keys=...)",
            )
        try:
            return cipher.decrypt(nonce, text, label)
        except (InvalidTag, ValueError):
            raise StoreUnusable(
                f"a value cannot be decrypted with key {excerpt(name)}",
                hint="it is damaged, or was encrypted with another key of that name",
            ) from None

    @classmethod
    def from_text(cls, text: str) -> Encryption:
        """Read keys from an environment variable: `name:base64`, comma-separated, the first is current."""
        keys = keys_from_text(text)
        return cls(keys, current=next(iter(keys)))


def keys_from_text(text: str) -> dict[str, bytes]:
    """Read keys written as `name:base64`, separated by commas."""
    keys: dict[str, bytes] = {}
    for part in text.split(","):
        name, _, encoded = part.strip().rpartition(":")
        try:
            keys[name or "default"] = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise SettingsInvalid(
                f"key {excerpt(name or 'default')} is not base64", hint=f"create one with: {_NEW_KEY}"
            ) from None
    return keys


class CodecChain:
    """Several codecs, the first nearest to the engine: CodecChain(Compression(), Encryption(...))."""

    def __init__(self, *codecs: PayloadCodec) -> None:
        self._codecs = codecs
        self.hides = any(map(hides, codecs))

    def encode(self, data: bytes) -> bytes:
        for codec in self._codecs:
            data = codec.encode(data)
        return data

    def decode(self, data: bytes) -> bytes:
        for codec in reversed(self._codecs):
            data = codec.decode(data)
        return data
