"""Encoded tags: how the tags of a run are kept where a codec hides values.

The column stays a JSON object, with one member a tag, so that an index can be made of it without the key:
`{hash of the name: [hash of name and value, the tag itself as the codec makes it, in base64]}`. The hashes
are keyed with the secret of the database and do not change when its key is rotated.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import msgspec

from stepwell.store.codec_check import Secret

Recode = Callable[[bytes], bytes]

_Plain = dict[str, str]
_Kept = dict[str, str | tuple[str, str]]


def encoded_tags(tags: bytes, secret: Secret, encode: Recode) -> bytes:
    if tags == b"{}":
        return tags
    kept: _Kept = {}
    for name, value in msgspec.json.decode(tags, type=_Plain).items():
        tag = base64.b64encode(encode(msgspec.json.encode((name, value)))).decode()
        kept[secret.mark("tag name", name)] = (secret.mark("tag", name, value), tag)
    return msgspec.json.encode(kept)


def decoded_tags(tags: bytes, decode: Recode) -> bytes:
    """The tags again; those that were written before there was a codec are as they are."""
    if tags == b"{}":
        return tags
    plain: _Plain = {}
    for mark, kept in msgspec.json.decode(tags, type=_Kept).items():
        if isinstance(kept, str):
            plain[mark] = kept
        else:
            name, value = msgspec.json.decode(decode(base64.b64decode(kept[1])), type=tuple[str, str])
            plain[name] = value
    return msgspec.json.encode(plain)
