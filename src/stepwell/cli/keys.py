"""`stepwell keys create | list | revoke`: API keys of a database."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepwell.client import Client
    from stepwell.domain.access import Credential

SCOPES = "read, run, approve, edit, admin"
HEADS = ("KEY", "NAME", "SCOPES", "ROLES", "CREATED", "USED", "STATE")


def add_keys(verbs: Any, database_help: str, user: str) -> None:
    """Add the command to the parser."""
    keys = verbs.add_parser("keys", help="create, list and revoke API keys")
    what = keys.add_subparsers(dest="what", required=True)
    create = what.add_parser("create", help="create a key and print it once")
    create.add_argument("name", help="who uses it; recorded with everything that is done with it")
    create.add_argument("--scope", action="append", default=[], help=f"{SCOPES}; repeatable (default: read)")
    create.add_argument("--role", action="append", default=[], help="role for approvals, repeatable")
    create.add_argument("--person", action="store_true", help="a person uses it, not a service")
    create.add_argument("--expires", metavar="DURATION", help="how long it is valid, such as 90d")
    listed = what.add_parser("list", help="list the keys, newest first")
    listed.add_argument("--limit", type=int, default=100, help="maximum number of keys (default: 100)")
    revoke = what.add_parser("revoke", help="make a key useless")
    revoke.add_argument("key", help="id of the key")
    for verb in (create, listed, revoke):
        verb.add_argument("--database", default="stepwell.db", help=database_help)
        verb.add_argument("--workspace", default="", help="workspace (default: default)")
        verb.add_argument("--by", default=user, help="who does it (default: your user name)")
        verb.add_argument("--json", action="store_true", help="machine-readable output")


async def do_keys(options: argparse.Namespace) -> int:
    from stepwell.cli.source import must_exist
    from stepwell.client import Client
    from stepwell.store.open import open_store
    from stepwell.system import SystemIds

    must_exist(options.database)
    store = open_store(options.database)
    await store.open(encoded=True)  # no payload is read or written, so no codec is needed
    try:
        client = Client(store, SystemIds(), workspace=options.workspace)
        if options.what == "create":
            await _create(client, options)
        elif options.what == "list":
            await _list(client, options)
        else:
            await _revoke(client, options)
    finally:
        await store.close()
    return 0


async def _create(client: Client, options: argparse.Namespace) -> None:
    new = await client.keys.create(
        options.name,
        scopes=options.scope or ["read"],
        roles=options.role,
        person=options.person,
        expires=options.expires,
        by=options.by,
    )
    if options.json:
        print(_json({**key_data(new.credential), "secret": new.text}))
        return
    print(new.text)
    print(
        "this is shown once; use it as the header Authorization: Bearer KEY, or\n"
        f"  export STEPWELL_API_KEY={new.text}",
        file=sys.stderr,
    )


async def _list(client: Client, options: argparse.Namespace) -> None:
    from stepwell.cli.output import table

    keys = await client.keys.list(limit=options.limit)
    now = await client.store.now()
    if options.json:
        print(_json([key_data(key) for key in keys]))
    elif keys:
        for line in table([HEADS, *(_cells(key, now) for key in keys)]):
            print(line)
    else:
        print("there are no keys; create one: stepwell keys create NAME --scope read", file=sys.stderr)


async def _revoke(client: Client, options: argparse.Namespace) -> None:
    done = await client.keys.revoke(options.key, by=options.by)
    if options.json:
        print(_json({"id": options.key, "revoked": done}))
    else:
        print(f"{options.key} {'is revoked' if done else 'was revoked before'}", file=sys.stderr)


def key_data(key: Credential) -> dict[str, Any]:
    """Return a key as JSON shows it, without its digest."""
    from stepwell.cli.output import time_text

    return {
        "id": key.id,
        "name": key.name,
        "workspace": key.workspace,
        "principal": key.principal,
        "scopes": key.scopes,
        "roles": key.roles,
        "created_at": time_text(key.created_at),
        "created_by": key.created_by,
        "expires_at": time_text(key.expires_at),
        "used_at": time_text(key.used_at),
        "revoked_at": time_text(key.revoked_at),
        "revoked_by": key.revoked_by,
    }


def _cells(key: Credential, now: float) -> tuple[str, ...]:
    from stepwell.cli.output import time_text

    state = "revoked" if key.revoked_at is not None else "expired" if key.is_expired(now) else "valid"
    return (
        key.id,
        key.name,
        ",".join(key.scopes),
        ",".join(key.roles),
        time_text(key.created_at) or "",
        time_text(key.used_at) or "never",
        state,
    )


def _json(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()
