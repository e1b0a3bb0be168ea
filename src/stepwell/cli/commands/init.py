"""`stepwell init`: a small project with workflows and a test that passes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepwell.cli.command import Commands
from stepwell.cli.session import CliSession
from stepwell.errors import Conflict, InvalidRequest

commands = Commands()

FLOWS = '''"""Workflows of this project. Run one: stepwell run flows.py:hello --input '"Ada"'"""

from stepwell import Context, Retry, step, workflow


@step(retry=Retry(3, delay="1s"))
async def greet(name: str) -> str:
    """A step is recorded: after a crash it is not executed again."""
    return f"hello {name}"


@workflow
async def hello(ctx: Context, name: str) -> str:
    """Greet somebody, and take a short break."""
    greeting = await ctx.step(greet, name)
    await ctx.sleep("1s")  # durable: the process may end meanwhile
    return greeting


@workflow
async def refund(ctx: Context, cents: int) -> str:
    """Ask a person before money is sent back."""
    answer = await ctx.approval(bool, title=f"Refund {cents / 100:.2f}?")
    return "refunded" if answer else "kept"
'''
TEST = '''"""Tests of the workflows, in virtual time: three days pass at once, and crashes come on demand."""

from flows import hello, refund

from stepwell.testing import crash_everywhere


async def test_a_refund_waits_three_days_for_a_decision(stepwell_engine):
    async with stepwell_engine(refund) as engine:
        run = await engine.start(refund, 1200)
        await engine.advance("3d")
        await run.decide(True, by="ann")
        assert await engine.outcome(run) == "refunded"


async def test_hello_survives_a_crash_at_every_commit(stepwell_engine):
    assert await crash_everywhere(hello, "Ada") > 0
'''
IGNORE = "__pycache__/\n.stepwell/\n"
FILES = {"flows.py": FLOWS, "test_flows.py": TEST, ".gitignore": IGNORE}


@commands.add("init", "stepwell init", "stepwell init orders", needs="nothing")
def init(
    session: CliSession,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder to create; else this one.")] = ".",
) -> None:
    """Write a small project: flows.py, and a test of it that passes."""
    path = Path(folder)
    present = [name for name in FILES if name != ".gitignore" and (path / name).exists()]
    if present:
        raise Conflict(
            f"{path / present[0]} exists; nothing was written",
            hint="choose another folder: stepwell init DIR",
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            if not (path / name).exists():
                (path / name).write_text(text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidRequest(f"{folder} cannot be written: {reason}", hint="choose another folder") from None
    written = [str(path / name) for name in FILES]
    if session.out.as_json:
        session.out.json({"files": written})
        return
    into = "" if folder == "." else f"cd {folder}\n  "
    session.out.say(
        f"wrote {', '.join(written)}\n\n  {into}stepwell run flows.py:hello --input '\"Ada\"'\n"
        "  pytest\n  stepwell dev flows.py"
    )
