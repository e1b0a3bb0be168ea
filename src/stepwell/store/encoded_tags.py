"""Encoded tags: how the tags of a run are stored when a codec hides values.

The column stays a JSON object with one member per tag, so that it can be indexed without the key:
`{hash of the name: [hash of name and value, the encoded tag in base64]}`. The hashes are keyed with the
secret of the database and do not change when its key is rotated.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import msgspec

from stepwell.store.codec_check import Secret

Recode = Callable[[bytes], bytes]

_Plain = dict[str, str]
_Encoded = dict[str, str | tuple[str, str]]


def encoded_tags(tags: bytes, secret: Secret, encode: Recode) -> bytes:
    if tags == b"{}":
        return tags
    encoded: _Encoded = {}
    for name, value in msgspec.json.decode(tags, type=_Plain).items():
        tag = base64.b64encode(encode(msgspec.json.encode((name, value)))).decode()
        encoded[secret.mark("tag name", name)] = (secret.mark("tag", name, value), tag)
    return msgspec.json.encode(encoded)


def decoded_tags(tags: bytes, decode: Recode) -> bytes:
    """Return the plain tags; those written before there was a codec are unchanged."""
    if tags == b"{}":
        return tags
    plain: _Plain = {}
    for mark, tag in msgspec.json.decode(tags, type=_Encoded).items():
        if isinstance(tag, str):
            plain[mark] = tag
        else:
            name, value = msgspec.json.decode(decode(base64.b64decode(tag[1])), type=tuple[str, str])
            plain[name] = value
    return msgspec.json.encode(plain)
