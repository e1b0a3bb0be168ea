"""Cursors: where a page or a stream continues. Opaque to clients, and bound to what they were made for.

A cursor opens nothing: it holds ids that are looked up within the caller's workspace like any other. So its
digest only finds mistakes, such as a cursor that is used with another filter.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

import msgspec

from stepwell.server.refusal import Refusal

_DIGEST = 12


def write(position: object, *purpose: str) -> str:
    data = msgspec.json.encode(position)
    return base64.urlsafe_b64encode(_digest(data, purpose) + data).rstrip(b"=").decode()


def read_text(cursor: str, *purpose: str) -> str:
    value = _read(cursor, purpose)
    if not isinstance(value, str):
        raise invalid()
    return value


def read_seqs(cursor: str, *purpose: str) -> Mapping[str, int]:
    value = _read(cursor, purpose)
    if not isinstance(value, dict) or any(type(seq) is not int for seq in value.values()):
        raise invalid()
    return value


def _read(cursor: str, purpose: tuple[str, ...]) -> object:
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        digest, data = raw[:_DIGEST], raw[_DIGEST:]
        if digest != _digest(data, purpose):
            raise invalid()
        value: object = msgspec.json.decode(data)
    except (ValueError, msgspec.DecodeError):
        raise invalid() from None
    return value


def _digest(data: bytes, purpose: tuple[str, ...]) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(purpose) + data, digest_size=_DIGEST).digest()


def read_seq(text: str | None) -> int:
    """Return the seq of the last event that a reader has; 0 for none."""
    if text is None or text == "":
        return 0
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise invalid()
    return int(text)


def invalid() -> Refusal:
    return Refusal(
        400,
        "CURSOR_INVALID",
        "the cursor does not belong to this request",
        hint="begin without one; pass a cursor back as it was given, with the same filter",
    )
