"""The body of an answer: read and decompressed up to a limit, so that a small answer cannot fill memory."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable

from stepwell.outbound.errors import OutboundFailed

ACCEPTED = "gzip, deflate"
_AUTO = 47  # gzip or zlib, by their first bytes
_RAW = -15
_PLAIN = ("", "identity")


async def read(chunks: AsyncIterable[bytes], encoding: str, bytes_max: int) -> bytes:
    """Return the decoded body; OutboundFailed if it is longer than `bytes_max`, or damaged."""
    encoding = encoding.strip().lower()
    if encoding in _PLAIN:
        plain = bytearray()
        async for chunk in chunks:
            plain += chunk
            check_length(len(plain), bytes_max)
        return bytes(plain)
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise _not_accepted(encoding, ACCEPTED)
    return await _decompressed(chunks, bytes_max)


def check_plain(encoding: str) -> None:
    """Refuse an encoded body if the client asked for none."""
    encoding = encoding.strip().lower()
    if encoding not in _PLAIN:
        raise _not_accepted(encoding, "plain bodies here")


def _not_accepted(encoding: str, accepted: str) -> OutboundFailed:
    return OutboundFailed(
        "RESPONSE_DECODE",
        f"the answer is encoded as {encoding[:40]!r}, which was not asked for",
        hint=f"the client accepts {accepted}",
    )


async def _decompressed(chunks: AsyncIterable[bytes], bytes_max: int) -> bytes:
    whole = bytearray()
    decoder = zlib.decompressobj(_AUTO)
    first = empty = True
    async for chunk in chunks:
        data, empty = chunk, empty and not chunk
        while data:
            try:
                whole += decoder.decompress(data, bytes_max - len(whole) + 1)
            except zlib.error as error:
                if not first:
                    raise OutboundFailed(
                        "RESPONSE_DECODE", f"the answer cannot be decompressed: {error}"
                    ) from None
                decoder, first = zlib.decompressobj(_RAW), False  # some servers send deflate without a header
                continue
            first = False
            check_length(len(whole), bytes_max)
            data = decoder.unconsumed_tail
    if not decoder.eof and not empty:
        raise OutboundFailed("RESPONSE_DECODE", "the compressed answer ends too early")
    return bytes(whole)


def check_length(length: int, bytes_max: int) -> None:
    if length > bytes_max:
        raise OutboundFailed(
            "RESPONSE_TOO_LARGE",
            f"the answer is longer than {bytes_max:,} bytes",
            hint="ask for less, or raise the node's maxResponseBytes",
            permanent=True,
        )
