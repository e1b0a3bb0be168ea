"""Channels: mail servers and webhook addresses by name. A graph uses a name, never an address."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from stepwell.channels.errors import NotifyError, refused
from stepwell.channels.mail import MailChannel
from stepwell.channels.notification import Notification, checked
from stepwell.channels.webhook import WebhookChannel
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import SecretsKeyMissing, SecretUnreadable, SettingsInvalid, excerpt

if TYPE_CHECKING:
    from stepwell.outbound.client import OutboundClient

PREFIX = "STEPWELL_CHANNEL_"
Channel = MailChannel | WebhookChannel
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MAIL_OPTIONS = ("from", "tls", "secret", "to", "domains")


class Channels:
    """The channels of one engine, and what sending through them needs."""

    def __init__(
        self,
        named: Mapping[str, Channel | str] | None,
        *,
        client: Callable[[], OutboundClient],
        secret: Callable[[str], Awaitable[str]],
        now: Callable[[], float],
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self.named = configured(named)
        self._client = client
        self._secret = secret
        self._now = now  # seconds since 1970
        self._tls = tls

    def of(self, name: str) -> Channel:
        if name not in self.named:
            raise refused(
                "NOTIFY_CHANNEL",
                f"this process has no channel {excerpt(name)}",
                hint=did_you_mean_one_of(name, self.named) or f"an operator sets {PREFIX}{name.upper()}",
                field="channel",
            )
        return self.named[name]

    async def send(self, name: str, notification: Notification) -> dict[str, Any]:
        """Send through the channel of that name, once. NotifyError says whether to try again."""
        channel = self.of(name)
        checked(notification)
        try:
            password = await self._secret(channel.secret) if channel.secret else ""
        except (SecretUnreadable, SecretsKeyMissing) as error:
            raise NotifyError(error.code, error.message, hint=error.hint, permanent=True) from None
        if isinstance(channel, MailChannel):
            return await channel.send(notification, password=password, now=self._now(), tls=self._tls)
        return await channel.send(notification, password=password, now=self._now(), client=self._client())


def configured(named: Mapping[str, Channel | str] | None) -> dict[str, Channel]:
    """Return the channels that an operator configured, by default in the environment."""
    given: Mapping[str, Channel | str] = _from_env(os.environ) if named is None else named
    channels: dict[str, Channel] = {}
    for name, value in given.items():
        if not _NAME.fullmatch(name):
            raise SettingsInvalid(f"a channel is named {excerpt(name)}", hint="use a-z, 0-9, - and _")
        channel = channel_of(name, value) if isinstance(value, str) else value
        if not isinstance(channel, MailChannel | WebhookChannel):
            raise SettingsInvalid(
                f"channel {name} is {excerpt(channel)}", hint="give a MailChannel, a WebhookChannel or a URL"
            )
        channels[name] = channel
    return channels


def channel_of(name: str, url: str) -> Channel:
    """Read a channel from its URL.

    `smtp://user@host:587?from=...&secret=...` or `https://host/path#secret=...`. An error never shows the
    URL, which may contain a password by mistake.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise SettingsInvalid(f"the address of channel {name} cannot be read") from None
    if parts.password:
        raise SettingsInvalid(
            f"the address of channel {name} has a password in it",
            hint="put it into a secret, and name that: &secret=NAME",
        )
    if parts.scheme in ("smtp", "smtps"):
        return _mail(name, parts, port)
    if parts.scheme in ("http", "https"):
        options = _options(name, parts.fragment, ("secret",))
        return WebhookChannel(url=parts._replace(fragment="").geturl(), secret=options.get("secret", ""))
    raise SettingsInvalid(
        f"channel {name} has an address that is not known", hint="begin it with smtp://, smtps:// or https://"
    )


def _mail(name: str, parts: SplitResult, port: int | None) -> MailChannel:
    options = _options(name, parts.query, _MAIL_OPTIONS)
    if "from" not in options:
        raise SettingsInvalid(f"channel {name} has no sender", hint="add ?from=bot@example.com")
    tls: Any = "tls" if parts.scheme == "smtps" else options.get("tls", "starttls")
    return MailChannel(
        host=parts.hostname or "",
        port=port,
        tls=tls,
        user=unquote(parts.username or ""),
        secret=options.get("secret", ""),
        sender=options["from"],
        to=_listed(options.get("to", "")),
        domains=_listed(options.get("domains", "")),
    )


def _options(name: str, text: str, known: tuple[str, ...]) -> dict[str, str]:
    options = dict(parse_qsl(text, keep_blank_values=True))
    for option in options:
        if option not in known:
            raise SettingsInvalid(
                f"channel {name} has the option {excerpt(option)}",
                hint=did_you_mean_one_of(option, known) or f"it can have: {', '.join(known)}",
            )
    return options


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _from_env(env: Mapping[str, str]) -> dict[str, Channel | str]:
    return {
        name.removeprefix(PREFIX).lower(): url for name, url in env.items() if name.startswith(PREFIX) and url
    }
