"""Notifications: who is notified of approvals, and where people and the server are reached."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from stepwell.channels.errors import NotifyError
from stepwell.channels.notification import checked_recipient
from stepwell.errors import SettingsInvalid, excerpt

APPROVALS = "STEPWELL_APPROVALS_CHANNEL"
ADDRESSES = "STEPWELL_ADDRESSES"
PUBLIC_URL = "STEPWELL_PUBLIC_URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifications:
    """Who is notified of approvals: `Notifications(approvals="mail", addresses={"ana": "ana@example.com"})`.

    `approvals` names the channel that notifies assignees of their approvals; '' notifies nobody.
    `addresses` are those of assignees and roles (`role:finance`); an assignee that is an address needs
    none. With `url`, the public address of the server, a notification contains a link.
    """

    approvals: str = ""
    addresses: Mapping[str, str] = field(default_factory=dict)
    url: str = ""

    def __post_init__(self) -> None:
        for assignee, address in self.addresses.items():
            try:
                checked_recipient(address)
            except NotifyError as error:
                raise SettingsInvalid(
                    f"the address of {excerpt(assignee)}: {error.message}", hint=error.hint
                ) from None
        parts = urlsplit(self.url)
        if self.url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query):
            raise SettingsInvalid(
                f"the public URL is {excerpt(self.url)}", hint="write https://flows.example.com"
            )

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Notifications:
        source = os.environ if env is None else env
        return cls(
            approvals=source.get(APPROVALS, ""),
            addresses=_read(source.get(ADDRESSES, "")),
            url=source.get(PUBLIC_URL, ""),
        )

    def address_of(self, assignee: str) -> str:
        """Return the address of an assignee, or ''."""
        known = self.addresses.get(assignee, "")
        if known or "@" not in assignee:
            return known
        try:
            checked_recipient(assignee)
        except NotifyError:
            return ""
        return assignee

    def link(self, path: str) -> str:
        """Return the address of a page of the server, or '' without a public address."""
        return f"{self.url.rstrip('/')}{path}" if self.url else ""


def _read(file: str) -> dict[str, str]:
    """Return the addresses in a JSON file: an object whose values are strings."""
    if not file:
        return {}
    try:
        addresses = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsInvalid(f"{ADDRESSES}: {excerpt(file)} cannot be read: {error}") from None
    if not isinstance(addresses, dict) or not all(isinstance(one, str) for one in addresses.values()):
        raise SettingsInvalid(
            f"{ADDRESSES}: {excerpt(file)} is not an object of texts", hint='write {"ana": "ana@example.com"}'
        )
    return addresses
