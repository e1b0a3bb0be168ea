"""`stepwell workflows list | show | disable | enable`. These need no workflow code."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import Any

import msgspec

from stepwell.cli.codec import named_codec, store_of
from stepwell.cli.output import table, time_text
from stepwell.cli.source import must_exist
from stepwell.client import Client
from stepwell.client.workflows import WorkflowInfo
from stepwell.errors import UnknownWorkflow
from stepwell.system import SystemIds

HEADS = ("STATE", "WORKFLOW", "KIND", "TITLE", "CREATED", "BY")


async def do(options: argparse.Namespace) -> int:
    must_exist(options.database)
    store = store_of(options.database, named_codec(options.codec))
    await store.open()
    try:
        client = Client(store, SystemIds(), workspace=options.workspace)
        if options.what == "list":
            _list(await client.workflows(), as_json=options.json)
        elif options.what == "show":
            _show(await client.workflows(), options)
        else:
            await _switch(client, options)
    finally:
        await store.close()
    sys.stdout.flush()  # here, where a closed pipe is handled
    return 0


def _list(workflows: list[WorkflowInfo], *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode([_data(info) for info in workflows]).decode())
    elif workflows:
        for line in table([HEADS, *(_cells(info) for info in workflows)]):
            print(line)
    else:
        print("no workflows", file=sys.stderr)


def _show(workflows: list[WorkflowInfo], options: argparse.Namespace) -> None:
    named = {info.name: info for info in workflows}
    if options.workflow not in named:
        raise UnknownWorkflow(
            f"no workflow {options.workflow!r} is known", known=", ".join(sorted(named)) or "none"
        )
    data = _data(named[options.workflow])
    if options.json:
        print(msgspec.json.encode(data).decode())
        return
    for name, value in data.items():
        if value not in (None, "", []):
            print(f"{name:<13}{value if isinstance(value, str) else msgspec.json.encode(value).decode()}")


async def _switch(client: Client, options: argparse.Namespace) -> None:
    switch = client.enable if options.what == "enable" else client.disable
    changed = await switch(options.workflow, by=options.by, reason=options.reason)
    already = "" if changed else "already "
    print(f"{options.workflow} is {already}{options.what}d", file=sys.stderr)


def _cells(info: WorkflowInfo) -> tuple[str, ...]:
    state = "enabled" if info.enabled else "disabled"
    created = time_text(info.created_at) or ""
    return (state, f"{info.name}@{info.version}", info.kind, info.title, created, info.created_by)


def _data(info: WorkflowInfo) -> dict[str, Any]:
    data = dataclasses.asdict(info)
    return data | {name: time_text(data[name]) for name in ("created_at", "switched_at")}
