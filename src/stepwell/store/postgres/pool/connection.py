"""Connection: a session of the server with the settings that our statements need."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, TypeAlias

import asyncpg

from stepwell.store.postgres.pool.dsn import Address
from stepwell.store.postgres.pool.errors import translated

Connection: TypeAlias = Any  # asyncpg.Connection; asyncpg has no types

CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 15.0
ANSWER_SECONDS = STATEMENT_SECONDS + 5.0  # the server gives up first and reports it
TRIES = 6
FIRST_PAUSE = 0.05  # seconds; doubles, with jitter: about 1.5 s of pauses in all

_KEEPALIVE = {
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
# The engine runs a fixed set of statements, each meant to go through an index row by row. Planning the
# largest takes 0.52 ms and running it for ten commits 0.39 ms, so plans are generic. A plan made while the
# tables were small would stay, so plans that are cheap only on small tables (sequential scans, joins by
# sorting or hashing) are not offered to the planner.
ENGINE_SETTINGS = _KEEPALIVE | {
    "application_name": "stepwell",
    "jit": "off",
    "statement_timeout": f"{STATEMENT_SECONDS * 1000:.0f}",
    "lock_timeout": "3000",
    "idle_in_transaction_session_timeout": "5000",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
# A transactional step runs the user's statements: they get the server's own planner and time limits, and
# may pause between statements (the step's timeout ends them). This limit only catches a frozen process.
USER_SETTINGS = _KEEPALIVE | {
    "application_name": "stepwell step",
    "idle_in_transaction_session_timeout": "900000",
}
# PgBouncer does not pass on other settings; there the role should have jit = off and the timeouts.
POLL_SETTINGS = {"application_name": "stepwell"}


async def connect(address: Address, settings: dict[str, str]) -> Connection:
    try:
        return await asyncpg.connect(
            address.dsn,
            timeout=CONNECT_SECONDS,
            command_timeout=None if settings is USER_SETTINGS else ANSWER_SECONDS,
            statement_cache_size=0 if address.poll_only else 200,
            max_cached_statement_lifetime=0,
            max_cacheable_statement_size=0,
            server_settings=POLL_SETTINGS if address.poll_only else settings,
        )
    except Exception as error:
        raise translated(error, address.redacted) from error


def pauses() -> Iterator[float]:
    pause = FIRST_PAUSE
    for _ in range(TRIES - 1):
        yield pause * (0.5 + random.random())
        pause *= 2
