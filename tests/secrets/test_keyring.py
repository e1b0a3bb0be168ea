"""Keys: what seals the values of secrets, and what is read from an operator's variables and files."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from msgspec.structs import replace

from stepwell.domain.secret import StoredSecret, checked_hosts, may_be_sent_to
from stepwell.errors import InvalidInput, SecretCorrupt, SecretUnreadable, SettingsInvalid
from stepwell.secrets.keyring import Keyring

OLD, NEW = b"o" * 32, b"n" * 32
PLAIN = StoredSecret(name="stripe", version=1, key="", wrapped=b"", body=b"")
VALUE = 'sk-live-"größe"\\0123'


def ring(*names: str) -> Keyring:
    keys = {"old": OLD, "new": NEW}
    return Keyring({name: keys[name] for name in names}, current=names[0])


@pytest.mark.req("X8")
def test_a_value_is_opened_as_it_was_sealed_and_looks_different_each_time() -> None:
    one, other = (ring("new").seal(PLAIN, VALUE) for _ in range(2))

    assert ring("new", "old").open(one) == VALUE
    assert one.body != other.body
    assert one.wrapped != other.wrapped
    assert VALUE.encode() not in one.body


@pytest.mark.req("X8")
@pytest.mark.parametrize(
    "change",
    [{"name": "other"}, {"workspace": "acme"}, {"version": 2}, {"body": b"x" * 60}, {"wrapped": b"x" * 60}],
    ids=str,
)
def test_a_sealed_value_opens_only_in_its_own_place(change: dict[str, object]) -> None:
    sealed = ring("new").seal(PLAIN, VALUE)

    with pytest.raises(SecretCorrupt, match="cannot be opened") as damaged:
        ring("new").open(replace(sealed, **change))
    assert damaged.value.code == "SECRET_CORRUPT"
    with pytest.raises(SecretCorrupt, match="another value here"):
        Keyring({"new": OLD}, current="new").open(sealed)


@pytest.mark.req("X8")
def test_another_key_seals_the_small_key_and_leaves_the_value() -> None:
    sealed = ring("old").seal(PLAIN, VALUE)
    rotated = ring("new", "old").rewrap(sealed)

    assert rotated.body == sealed.body
    assert rotated.key == "new"
    assert ring("new").open(rotated) == VALUE
    with pytest.raises(SecretUnreadable, match="sealed with key 'old'"):
        ring("new").open(sealed)


def test_keys_are_read_from_a_variable_or_a_private_file(tmp_path: Path) -> None:
    text = f"new:{base64.b64encode(NEW).decode()}"
    file = tmp_path / "keys"
    file.write_text(f"{text}\nold:{base64.b64encode(OLD).decode()}\n")
    file.chmod(0o600)

    from_file = Keyring.from_env({"STEPWELL_SECRETS_KEY_FILE": str(file)})
    from_variable = Keyring.from_env({"STEPWELL_SECRETS_KEY": text})

    assert Keyring.from_env({}) is None
    assert from_file is not None
    assert from_variable is not None
    assert from_variable.open(from_file.seal(PLAIN, VALUE)) == VALUE
    assert from_file.open(ring("old").seal(PLAIN, VALUE)) == VALUE


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"STEPWELL_SECRETS_KEY": "not base64!"}, "is not base64"),
        ({"STEPWELL_SECRETS_KEY": "a:c2hvcnQ="}, "must be 32 bytes"),
        ({"STEPWELL_SECRETS_KEY": "x", "STEPWELL_SECRETS_KEY_FILE": "y"}, "both"),
        ({"STEPWELL_SECRETS_KEY_FILE": "/nowhere/at/all"}, "cannot be read"),
    ],
)
def test_keys_that_cannot_be_used_are_refused(variables: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsInvalid, match=message):
        Keyring.from_env(variables)


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(base64.b64encode(NEW).decode())
    file.chmod(0o644)

    with pytest.raises(SettingsInvalid, match="others may read") as refusal:
        Keyring.from_env({"STEPWELL_SECRETS_KEY_FILE": str(file)})

    assert "chmod 600" in refusal.value.hint


@pytest.mark.req("BI-H26")
@pytest.mark.parametrize(
    ("hosts", "address", "allowed"),
    [
        (["api.example.com"], ("https", "api.example.com", 443), True),
        (["API.example.com"], ("https", "API.EXAMPLE.com", 443), True),
        (["api.example.com"], ("http", "api.example.com", 80), False),
        (["api.example.com"], ("https", "api.example.com", 8443), False),
        (["api.example.com:8443"], ("https", "api.example.com", 8443), True),
        (["api.example.com"], ("https", "evil-api.example.com", 443), False),
        (["api.example.com"], ("https", "api.example.com.evil.net", 443), False),
        (["*.example.com"], ("https", "a.b.example.com", 443), True),
        (["*.example.com"], ("https", "example.com", 443), False),
        (["*.example.com"], ("https", "evilexample.com", 443), False),
        (["http://127.0.0.1:8080"], ("http", "127.0.0.1", 8080), True),
        (["http://127.0.0.1:8080"], ("https", "127.0.0.1", 8080), False),
        (["[::1]:9000"], ("https", "::1", 9000), True),
        (["http://[::1]"], ("http", "::1", 80), True),
        ([], ("https", "api.example.com", 443), False),
    ],
    ids=str,
)
def test_a_secret_goes_to_its_hosts_only(
    hosts: list[str], address: tuple[str, str, int], allowed: bool
) -> None:
    secret = replace(PLAIN, hosts=checked_hosts(hosts))

    assert may_be_sent_to(secret, *address) is allowed


@pytest.mark.parametrize(
    "host",
    [
        "",
        "*",
        "*.*.com",
        "a b",
        "https://x/path",
        "user@host",
        "ftp://x",
        "x:port",
        "-a",
        7,
        "a" * 400,
        "{{x}}",
    ],
)
def test_what_cannot_be_a_host_is_refused(host: object) -> None:
    with pytest.raises(InvalidInput, match="cannot be a host"):
        checked_hosts([host])
