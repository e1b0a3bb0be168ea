"""Notification: what a channel sends. Nothing in it can add a header or a recipient."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from stepwell.channels.errors import refused
from stepwell.errors import excerpt

RECIPIENTS_MAX = 50
SUBJECT_MAX = 500  # characters
TEXT_MAX = 256 * 1024  # bytes; for the text and for the data

_BREAKS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_LOCAL = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"{_LOCAL}@{_LABEL}(?:\.{_LABEL})*")
_NAMED = re.compile(r'"?([^<>"\\@]*?)"?\s*<([^<>]*)>')
_ADDRESS_MAX = 254  # characters, as RFC 5321 says


class Recipient(NamedTuple):
    """One mailbox."""

    name: str
    address: str

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2].lower()


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A mail, or the body of a webhook. `id` is the same on every attempt."""

    id: str
    subject: str = ""
    text: str = ""
    to: tuple[str, ...] = ()  # mailboxes; a webhook just includes them
    data: Any = None
    type: str = "notification"


def id_of(key: str) -> str:
    """Return the id for this key. A receiver recognises a repeated attempt by it."""
    return f"msg_{hashlib.blake2b(key.encode(), digest_size=18).hexdigest()}"


def checked(notification: Notification) -> Notification:
    """Return the notification; NotifyError says what may not be sent."""
    checked_subject(notification.subject)
    checked_recipients(notification.to)
    if len(notification.text.encode("utf-8", "replace")) > TEXT_MAX:
        raise refused("NOTIFICATION_TOO_LARGE", f"the text is longer than {TEXT_MAX // 1024} KiB")
    if len(msgspec.json.encode(notification.data)) > TEXT_MAX:
        raise refused("NOTIFICATION_TOO_LARGE", f"the data is longer than {TEXT_MAX // 1024} KiB")
    return notification


def checked_subject(subject: str) -> str:
    """Return the subject. A line break in it would begin another header."""
    if _BREAKS.search(subject):
        raise refused(
            "HEADER_INVALID",
            f"the subject {excerpt(subject)} has a line break or another control character",
            hint="remove it; only the text may have several lines",
            field="subject",
        )
    if len(subject) > SUBJECT_MAX:
        raise refused(
            "NOTIFICATION_TOO_LARGE", f"the subject is longer than {SUBJECT_MAX} characters", field="subject"
        )
    return subject


def checked_recipients(to: Iterable[str]) -> list[Recipient]:
    """Return the mailboxes, each once."""
    mailboxes = {one.address.lower(): one for one in map(checked_recipient, to)}
    if len(mailboxes) > RECIPIENTS_MAX:
        raise refused(
            "RECIPIENTS_MAX",
            f"{len(mailboxes)} recipients are too many",
            hint=f"at most {RECIPIENTS_MAX}; use a mailing list",
            field="to",
        )
    return list(mailboxes.values())


def checked_recipient(text: str) -> Recipient:
    """Return the mailbox in a text such as `ana@example.com` or `Ana <ana@example.com>`."""
    if _BREAKS.search(text):
        raise refused(
            "HEADER_INVALID",
            f"the address {excerpt(text)} has a line break or another control character",
            hint="remove it",
            field="to",
        )
    named = _NAMED.fullmatch(text.strip())
    name, address = named.groups() if named else ("", text.strip())
    if len(address) > _ADDRESS_MAX or not _ADDRESS.fullmatch(address) or len(name) > SUBJECT_MAX:
        raise refused(
            "RECIPIENT_INVALID",
            f"{excerpt(text)} is not one e-mail address",
            hint="write ana@example.com or Ana <ana@example.com>, one address in each item of the list",
            field="to",
        )
    return Recipient(name, address)
