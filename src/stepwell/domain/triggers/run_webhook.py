"""RunWebhook: an address that one run gives away, for one delivery.

Nothing is stored for it. The address names the run and contains a code that only the run's seed produces,
which proves that the run created it. A delivery is the broadcast event `webhook` with the address as its
key, so it is kept until the run waits for it, and counts once.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

from stepwell.domain.ids import RunId, recorded_random
from stepwell.domain.secret import checked_secret_name
from stepwell.domain.triggers.webhook import Scheme, WebhookSettings, checked_webhook
from stepwell.errors import InvalidInput, excerpt

DELIVERY = "webhook"  # the name of the event
_PREFIX = "/hooks/"
_SCHEMES: tuple[Scheme, ...] = ("standard", "bearer", "basic")


class RunWebhook(NamedTuple):
    run_id: RunId
    nonce: str
    code: str
    settings: WebhookSettings

    def is_made_with(self, seed: str) -> bool:
        """Return whether the run with this seed created it."""
        return hmac.compare_digest(self.code, _code(seed, self.run_id, self.nonce, self.settings))


def run_webhook(
    workspace: str, run_id: str, seed: str, place: str, *, secret: str = "", scheme: str = ""
) -> str:
    """Return the path of the address that a run creates here. InvalidInput if its scheme is unknown."""
    scheme = scheme or ("standard" if secret else "none")
    if scheme not in ("none", *_SCHEMES):
        raise InvalidInput(
            f"scheme is {excerpt(scheme)}", hint=f"use one of: {', '.join(_SCHEMES)}", field="scheme"
        )
    if secret:
        checked_secret_name(secret)
    settings = checked_webhook(WebhookSettings(scheme=scheme, secret=secret))
    nonce = f"{recorded_random(seed, f'{place}/webhook'):032x}"
    parts = [run_id, nonce, _code(seed, run_id, nonce, settings)]
    if secret:
        parts += [scheme, secret]
    return f"{_PREFIX}{workspace}/{'.'.join(parts)}"


def token_of(path: str) -> str:
    """Return the token in the path of an address. InvalidInput if it is not the address of a run."""
    token = str(path).rpartition("/")[2]
    if read_token(token) is None:
        raise InvalidInput(
            f"{excerpt(path)} is not the path of a webhook",
            hint="pass what ctx.webhook() returned",
            field="path",
        )
    return token


def receiver_of(token: str) -> RunId:
    """Return the run for which a delivery to this address is. Stores keep it while that run lives."""
    return RunId(token.partition(".")[0])


def read_token(token: str) -> RunWebhook | None:
    """Return the webhook of this token, or None if no run can have created it."""
    run_id, *parts = token.split(".", 4)
    if (
        not token.isascii()
        or len(parts) not in (2, 4)
        or any(len(part) != 32 for part in (run_id, *parts[:2]))
    ):
        return None
    scheme, secret = parts[2:] if len(parts) == 4 else ("none", "")
    if (scheme == "none") is bool(secret) or scheme not in ("none", *_SCHEMES):
        return None
    settings = WebhookSettings(scheme=scheme, secret=secret)
    return RunWebhook(RunId(run_id), parts[0], parts[1], settings)


def _code(seed: str, run_id: str, nonce: str, settings: WebhookSettings) -> str:
    text = f"webhook/{run_id}/{nonce}/{settings.scheme}/{settings.secret}"
    return hashlib.blake2b(text.encode(), key=seed.encode()[:64], digest_size=16).hexdigest()
