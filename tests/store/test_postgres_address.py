"""Addresses of PostgreSQL: as libpq writes them, with several hosts too."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from stepwell import Context, Engine, workflow
from stepwell.errors import SettingsInvalid, StoreUnavailable
from stepwell.store.postgres.pool.dsn import parse
from tests.engines import SETTINGS


@workflow
async def plain(ctx: Context, n: int) -> int:
    return n + await ctx.step(lambda: 1)


@pytest.mark.req("K16")
async def test_of_several_hosts_the_one_that_can_write_is_taken(postgres_url: str) -> None:
    here = urlsplit(postgres_url)
    user = f"{here.username}:{here.password}" if here.password else here.username
    hosts = f"127.0.0.1:1,{here.hostname}:{here.port}"
    url = f"postgresql://{user}@{hosts}{here.path}?target_session_attrs=read-write"

    async with Engine(url, workflows=[plain], settings=SETTINGS) as engine:
        assert await (await engine.start(plain, 1)).result(40) == 2


@pytest.mark.req("K16")
async def test_hosts_that_are_all_away_are_named(postgres_url: str) -> None:
    url = "postgresql://app:secret@127.0.0.1:1,127.0.0.1:2/db?target_session_attrs=read-write"

    with pytest.raises(StoreUnavailable) as refused:
        async with Engine(url, worker=False):
            pass

    assert refused.value.context["database"] == "127.0.0.1:1,127.0.0.1:2/db"
    assert "secret" not in str(refused.value)


@pytest.mark.req("K16")
@pytest.mark.parametrize(
    ("url", "redacted"),
    [
        ("postgresql://u@h1:5432,h2:5433/db?target_session_attrs=read-write", "h1:5432,h2:5433/db"),
        ("postgresql://u:p@h1,h2/db?schema=a", "h1:5432,h2:5432/db"),
        ("postgresql://u@[::1]:5433,h2/db", "[::1]:5433,h2:5432/db"),
        ("postgresql:///db?host=a,b&port=1,2", "localhost:5432/db"),
        ("postgresql://h/db", "h:5432/db"),
    ],
)
def test_an_address_is_shown_with_its_hosts(url: str, redacted: str) -> None:
    assert parse(url).redacted == redacted


@pytest.mark.req("K16")
@pytest.mark.parametrize("hosts", ["h:x", "h:0", "h:65536", "h1:5432,h2:port", "h1:1:2", "h:٣", "[::1"])
def test_a_port_that_cannot_be_is_refused(hosts: str) -> None:
    with pytest.raises(SettingsInvalid, match="port"):
        parse(f"postgresql://u@{hosts}/db")
