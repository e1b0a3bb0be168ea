"""`stepwell why`: the daily question, without the name of its group."""

from __future__ import annotations

from stepwell.cli.command import Commands
from stepwell.cli.commands.runs import why

commands = Commands()
commands.add("why", "stepwell why @waiting", "stepwell why 0192f0c1d2e3 --json")(why)
