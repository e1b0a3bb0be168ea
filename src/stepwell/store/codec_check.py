"""CodecCheck: what a database keeps so that only processes with its codec open it.

The first process that opens a database with a codec writes the check, encoded as payloads are. Who has no
codec is refused because there is a check, who has another key because it cannot read it. When the current key
changes the check is written anew with it, so that who lacks the new key is refused as well.

Beside that the check holds a secret of the database's own, which stays the same whatever key is current:
what must be found again by equality is hashed or masked with it. These are digests of inputs and, in a later
version, tags.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

import msgspec

from stepwell.domain.commit import Identity, RunFilter
from stepwell.errors import CodecMissing, StoreUnusable
from stepwell.store.base import Store
from stepwell.store.payloads import PayloadCodec

_FORMAT = "stepwell-codec-check"
_PADDING = "." * 1024  # long enough to be compressed, by a codec that does
_MASKED = "x"  # no digest begins with it
_MARK_BYTES = 16


class CodecCheck(msgspec.Struct, frozen=True, kw_only=True):
    format: str = _FORMAT
    secret: bytes
    padding: str = _PADDING


async def agreed(store: Store, codec: PayloadCodec, fresh: Callable[[], bytes]) -> bytes:
    """The secret of the database, once this codec was found to be the right one; CodecMissing: it is not."""
    while True:
        kept = await store.read_codec_check()
        if kept:
            check = _read(codec, kept)
        else:
            if kept is not None:  # encoded by a version that wrote no check
                await _reads_newest_run(store, codec)
            check = CodecCheck(secret=fresh())
        encoded = codec.encode(msgspec.json.encode(check))
        if encoded == kept or await store.write_codec_check(encoded, expected=kept):
            return check.secret


def _read(codec: PayloadCodec, kept: bytes) -> CodecCheck:
    try:
        return msgspec.json.decode(codec.decode(kept), type=CodecCheck)
    except Exception as error:  # of a codec of somebody else's as well: what it raises is not known
        raise _other_codec(error) from error


async def _reads_newest_run(store: Store, codec: PayloadCodec) -> None:
    for run in await store.list_runs(RunFilter(limit=1)):
        try:
            msgspec.json.decode(codec.decode(run.input))
        except Exception as error:
            raise _other_codec(error) from error


def _other_codec(error: Exception) -> CodecMissing:
    why = error.message if isinstance(error, StoreUnusable) else "its codec wrote something else"
    return CodecMissing(
        f"the database was written with another key or codec: {why}",
        hint="give the codec that its workers have, in the same order if it is a Chain, with all keys",
    )


class Secret:
    """What is derived from the secret of a database."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def mark(self, what: str, *texts: str) -> str:
        """A keyed hash of these texts: equal for equal ones, and no more can be told from it."""
        data = msgspec.json.encode([what, *texts])
        found = hashlib.blake2b(data, key=self._secret, digest_size=_MARK_BYTES).digest()
        return base64.urlsafe_b64encode(found).rstrip(b"=").decode()

    def masked(self, digest: str, identity: Identity) -> str:
        """A digest that only who has the secret can compare with a guess. One identity has one digest."""
        return _MASKED + self._masked(bytes.fromhex(digest), identity).hex()

    def unmasked(self, digest: str, identity: Identity) -> str:
        """As it was; one from before there was a codec stays."""
        if not digest.startswith(_MASKED):
            return digest
        return self._masked(bytes.fromhex(digest[len(_MASKED) :]), identity).hex()

    def _masked(self, digest: bytes, identity: Identity) -> bytes:
        data = msgspec.json.encode(["digest", *identity])
        mask = hashlib.blake2b(data, key=self._secret, digest_size=len(digest)).digest()
        return bytes(one ^ other for one, other in zip(digest, mask, strict=True))
