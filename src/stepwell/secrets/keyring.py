"""Keyring: seals the values of secrets, and opens them. Its keys are never in the database.

Each version of a secret is sealed with a random key of its own, and that key with the current key of the
ring (AES-256-GCM, random nonces). So a new key in the ring means sealing small keys again, and no values.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from stepwell.domain.secret import StoredSecret
from stepwell.errors import SecretCorrupt, SecretUnreadable, SettingsInvalid, excerpt
from stepwell.store.payloads import keys_from_text

KEY = "STEPWELL_SECRETS_KEY"
KEY_FILE = "STEPWELL_SECRETS_KEY_FILE"

_NONCE = 12
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Keyring:
    """`keys` are 32 bytes each, by name; new values are sealed with `current`."""

    def __init__(
        self, keys: Mapping[str, bytes], *, current: str, random: Callable[[int], bytes] = os.urandom
    ) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise SettingsInvalid(
                "secrets need the package cryptography", hint='pip install "stepwell[encryption]"'
            ) from None
        if current not in keys:
            raise SettingsInvalid(
                f"there is no key {excerpt(current)}", hint=f"keys are {', '.join(sorted(keys))}"
            )
        for name, key in keys.items():
            if len(key) != 32 or not 0 < len(name) <= 100:
                raise SettingsInvalid(
                    f"key {excerpt(name)} must be 32 bytes under a short name",
                    hint="create one with: openssl rand -base64 32",
                )
        self._ciphers = {name: AESGCM(key) for name, key in keys.items()}
        self._cipher = AESGCM
        self._random = random
        self.current = current

    @classmethod
    def from_text(cls, text: str) -> Keyring:
        """Read `name:base64` keys, separated by commas or lines; the first is current."""
        keys = keys_from_text(",".join(line for line in text.splitlines() if line.strip()))
        return cls(keys, current=next(iter(keys)))

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Keyring | None:
        """Read the keys that an operator configured, from a variable or a file. None if there are none."""
        source = os.environ if env is None else env
        text, file = source.get(KEY, ""), source.get(KEY_FILE, "")
        if text and file:
            raise SettingsInvalid(f"both {KEY} and {KEY_FILE} are set", hint="set one of them")
        if file:
            text = _read(Path(file))
        return cls.from_text(text) if text.strip() else None

    def seal(self, secret: StoredSecret, value: str) -> StoredSecret:
        """Return the secret with this value, sealed for its workspace, name and version."""
        own = self._random(32)
        body = self._sealed(self._cipher(own), value.encode(), secret.identity)
        wrapped = self._sealed(self._ciphers[self.current], own, secret.identity)
        return replace(secret, key=self.current, wrapped=wrapped, body=body)

    def open(self, secret: StoredSecret) -> str:
        """Return the value. No other code decrypts one."""
        from cryptography.exceptions import InvalidTag

        own = self._own_key(secret)
        try:
            return self._opened(self._cipher(own), secret.body, secret.identity).decode()
        except (InvalidTag, ValueError):
            raise _damaged(secret) from None

    def rewrap(self, secret: StoredSecret) -> StoredSecret:
        """Return the secret with its own key sealed by the current key; its value is not opened."""
        own = self._own_key(secret)
        wrapped = self._sealed(self._ciphers[self.current], own, secret.identity)
        return replace(secret, key=self.current, wrapped=wrapped)

    def _own_key(self, secret: StoredSecret) -> bytes:
        from cryptography.exceptions import InvalidTag

        cipher = self._ciphers.get(secret.key)
        if cipher is None:
            raise SecretUnreadable(
                f"secret {excerpt(secret.name)} is sealed with key {excerpt(secret.key)}, "
                "which this process does not have",
                hint=f"add that key to {KEY} or {KEY_FILE}",
                secret=secret.name,
            )
        try:
            return self._opened(cipher, secret.wrapped, secret.identity)
        except (InvalidTag, ValueError):
            raise _damaged(secret) from None

    def _sealed(self, cipher: object, data: bytes, identity: str) -> bytes:
        nonce = self._random(_NONCE)
        text: bytes = cipher.encrypt(nonce, data, identity.encode())  # type: ignore[attr-defined]  # an AESGCM
        return nonce + text

    def _opened(self, cipher: object, data: bytes, identity: str) -> bytes:
        nonce, text = data[:_NONCE], data[_NONCE:]
        opened: bytes = cipher.decrypt(nonce, text, identity.encode())  # type: ignore[attr-defined]  # an AESGCM
        return opened


def _read(path: Path) -> str:
    try:
        if path.stat().st_mode & _OTHERS:
            raise SettingsInvalid(
                f"others may read the key file {excerpt(str(path))}", hint=f"run: chmod 600 {path}"
            )
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsInvalid(
            f"the key file {excerpt(str(path))} cannot be read: {error}", hint=f"check {KEY_FILE}"
        ) from None


def _damaged(secret: StoredSecret) -> SecretCorrupt:
    return SecretCorrupt(
        f"secret {excerpt(secret.name)} cannot be opened with key {excerpt(secret.key)}: it is damaged, or "
        "that key has another value here",
        secret=secret.name,
    )
