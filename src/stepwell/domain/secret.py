"""Secrets as they are stored: sealed values with a name, and the hosts that may receive them."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from stepwell.domain.commit import DEFAULT_WORKSPACE
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import InvalidInput, excerpt

USES = ("bearer", "basic", "header")
VALUE_MIN = 8  # characters: redacting a shorter value would damage ordinary text
VALUE_MAX = 64 * 1024  # bytes
HOSTS_MAX = 50
_HOST_MAX = 300  # characters

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_HOST = re.compile(
    r"(?:https?://)?(?:\*\.)?(?:[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?(?::\d{1,5})?\Z"
)
_HOST_IPV6 = re.compile(r"(?:https?://)?\[[0-9a-f:]+\](?::\d{1,5})?\Z")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")


class StoredSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A stored secret. `body` is the value, sealed with its own key; `key` seals that key as `wrapped`."""

    name: str
    version: int  # how many values this name has had
    key: str
    wrapped: bytes
    body: bytes
    workspace: str = DEFAULT_WORKSPACE
    use: str = "bearer"
    header: str = ""
    hosts: tuple[str, ...] = ()
    created_at: float = 0.0
    created_by: str = ""

    @property
    def identity(self) -> str:
        """What the value is bound to, so that it cannot be stored under another name."""
        return msgspec.json.encode((self.workspace, self.name, self.version)).decode()


def checked_secret_name(name: object, field: str = "name") -> str:
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidInput(
            f"{excerpt(name)} cannot be the name of a secret",
            hint="use letters, digits, '.', '_' and '-', at most 100",
            field=field,
        )
    return name


def checked_value(value: object) -> str:
    """Return the value. An error never contains it."""
    if not isinstance(value, str) or "\0" in value:
        raise InvalidInput("the value of a secret must be text without NUL", field="value")
    if len(value) < VALUE_MIN:
        raise InvalidInput(
            f"the value of a secret has at least {VALUE_MIN} characters",
            hint="a shorter one could not be removed from logs and errors without damaging other text",
            field="value",
        )
    if len(value.encode("utf-8", "surrogatepass")) > VALUE_MAX:
        raise InvalidInput(f"the value of a secret has at most {VALUE_MAX // 1024} KiB", field="value")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput("the value of a secret must be valid Unicode", field="value") from None
    return value


def checked_use(use: object, header: object) -> tuple[str, str]:
    """Return how an HTTP request carries the value: the scheme and the name of the header."""
    if use not in USES:
        raise InvalidInput(
            f"{excerpt(use)} is not a way to use a secret",
            hint=did_you_mean_one_of(str(use), USES),
            field="use",
        )
    if use != "header":
        if header:
            raise InvalidInput(f"a secret with use {excerpt(use)} takes no header", field="header")
        return str(use), ""
    if not isinstance(header, str) or not _HEADER.match(header):
        raise InvalidInput(
            f"{excerpt(header)} cannot be the name of a header", hint="name one: X-Api-Key", field="header"
        )
    return str(use), header


def checked_hosts(hosts: Iterable[object]) -> tuple[str, ...]:
    """Return the hosts in lower case, each once. InvalidInput names the wrong one."""
    if isinstance(hosts, str):
        raise InvalidInput(
            f"hosts is {excerpt(hosts)}", hint='pass a list: ["api.example.com"]', field="hosts"
        )
    named: dict[str, None] = {}
    for host in hosts:
        text = host.lower() if isinstance(host, str) else ""
        if len(text) > _HOST_MAX or not (_HOST.match(text) or _HOST_IPV6.match(text)):
            raise InvalidInput(
                f"{excerpt(host)} cannot be a host",
                hint="write api.example.com, *.example.com, or http://127.0.0.1:8080 for plain HTTP",
                field="hosts",
            )
        named[text] = None
    if len(named) > HOSTS_MAX:
        raise InvalidInput(f"{len(named)} hosts are too many", hint=f"at most {HOSTS_MAX}", field="hosts")
    return tuple(named)


def may_be_sent_to(secret: StoredSecret, scheme: str, host: str, port: int) -> bool:
    """Return whether one of the hosts covers this address. Plain HTTP and other ports must be named."""
    return any(_covers(pattern, scheme, host.lower(), port) for pattern in secret.hosts)


def _covers(pattern: str, scheme: str, host: str, port: int) -> bool:
    wanted_scheme, separator, rest = pattern.rpartition("://")
    if scheme != (wanted_scheme if separator else "https"):
        return False
    name, colon, wanted_port = rest.rpartition(":") if not rest.endswith("]") else (rest, "", "")
    if not colon:
        name, wanted_port = rest, "443" if scheme == "https" else "80"
    if port != int(wanted_port):
        return False
    if name.startswith("*."):
        return host.endswith(name[1:]) and len(host) > len(name) - 1
    return host == name.strip("[]")
