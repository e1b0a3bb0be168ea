"""From an address to a store."""

from __future__ import annotations

import os

import pytest

from stepwell.errors import SettingsInvalid
from stepwell.store import queries
from stepwell.store.memory import MemoryStore
from stepwell.store.open import open_store
from stepwell.store.sqlite.store import SqliteStore


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("app.db", "app.db"),
        ("data/app.db", "data/app.db"),
        ("/var/app.db", "/var/app.db"),
        ("sqlite:///app.db", "app.db"),
        ("sqlite:////var/app.db", "/var/app.db"),
        ("sqlite:///my%20app.db", "my app.db"),
    ],
)
def test_files_are_sqlite(address: str, path: str) -> None:
    store = open_store(address)

    assert isinstance(store, SqliteStore)
    assert store.path == os.path.abspath(path)


def test_memory_is_the_memory_store() -> None:
    assert isinstance(open_store(":memory:"), MemoryStore)


@pytest.mark.parametrize(
    "address", ["mysql://host/db", "redis://x", "sqlite://app.db", "", "sqlite:///", "a\x00b"]
)
def test_other_addresses_are_refused_with_a_hint(address: str) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        open_store(address)

    assert "app.db" in caught.value.hint


def test_queries_are_found_by_name_without_their_comments() -> None:
    source = "-- about\n\n-- name: one\n-- why\nSELECT 1\nFROM runs;\n\n-- name: two\nSELECT 2;\n"

    assert queries.parse(source) == {"one": "SELECT 1\nFROM runs", "two": "SELECT 2"}


@pytest.mark.parametrize(
    "source", ["-- name: a\nX;\n-- name: a\nY;", "-- name: a\n-- why\n", "-- name: a b\nX"]
)
def test_queries_without_a_clear_name_are_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"not a valid name|without"):
        queries.parse(source)
