"""CodecCheck: a record in the database that lets only processes with its codec open it.

The first process that opens a database with a codec writes the check, encoded as payloads are. A process
without a codec is refused because there is a check, one with another key because it cannot read it. When the
current key changes, the check is rewritten with it, so that a process without the new key is refused too.

The check also holds a secret of the database, which stays the same whatever key is current. Values that
must be compared for equality (digests of inputs, tags) are hashed or masked with it.
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
_PADDING = "." * 1024  # long enough for a codec that compresses
_MASKED = "x"  # digests are hexadecimal: none begins with it
_MARK_BYTES = 16


class CodecCheck(msgspec.Struct, frozen=True, kw_only=True):
    format: str = _FORMAT
    secret: bytes
    padding: str = _PADDING


async def agreed(store: Store, codec: PayloadCodec, fresh: Callable[[], bytes]) -> bytes:
    """Return the secret of the database; raise CodecMissing if this is not the codec that wrote it."""
    while True:
        stored = await store.read_codec_check()
        if stored:
            check = _read(codec, stored)
        else:
            if stored is not None:  # encoded by a version that wrote no check
                await _reads_newest_run(store, codec)
            check = CodecCheck(secret=fresh())
        encoded = codec.encode(msgspec.json.encode(check))
        if encoded == stored or await store.write_codec_check(encoded, expected=stored):
            return check.secret


def _read(codec: PayloadCodec, stored: bytes) -> CodecCheck:
    try:
        return msgspec.json.decode(codec.decode(stored), type=CodecCheck)
    except Exception as error:  # a user's codec may raise anything
        raise _other_codec(error) from error


async def _reads_newest_run(store: Store, codec: PayloadCodec) -> None:
    for run in await store.list_runs(RunFilter(limit=1)):
        try:
            msgspec.json.decode(codec.decode(run.input))
        except Exception as error:
            raise _other_codec(error) from error


def _other_codec(error: Exception) -> CodecMissing:
    why = error.message if isinstance(error, StoreUnusable) else "this codec cannot read the check"
    return CodecMissing(
        f"the database was written with another key or codec: {why}",
        hint="use the codec that its workers have, in the same order if it is a CodecChain, with all keys",
    )


class Secret:
    """Hashes and masks derived from the secret of a database."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def mark(self, what: str, *texts: str) -> str:
        """A keyed hash of these texts: equal for equal texts, and it reveals nothing else."""
        data = msgspec.json.encode([what, *texts])
        digest = hashlib.blake2b(data, key=self._secret, digest_size=_MARK_BYTES).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def masked(self, digest: str, identity: Identity) -> str:
        """Mask a digest: only a holder of the secret can check a guess. One identity has one digest."""
        return _MASKED + self._masked(bytes.fromhex(digest), identity).hex()

    def unmasked(self, digest: str, identity: Identity) -> str:
        """Undo the mask; a digest from before there was a codec is unchanged."""
        if not digest.startswith(_MASKED):
            return digest
        return self._masked(bytes.fromhex(digest[len(_MASKED) :]), identity).hex()

    def _masked(self, digest: bytes, identity: Identity) -> bytes:
        data = msgspec.json.encode(["digest", *identity])
        mask = hashlib.blake2b(data, key=self._secret, digest_size=len(digest)).digest()
        return bytes(one ^ other for one, other in zip(digest, mask, strict=True))
