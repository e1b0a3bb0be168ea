"""`stepwell completion install | show`: completion of commands and options in the shell."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli.command import Commands
from stepwell.cli.session import CliSession
from stepwell.errors import InvalidRequest

commands = Commands("Let the shell complete commands and options.")
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_VARIABLE = "_STEPWELL_COMPLETE"
Shell = Annotated[
    str, typer.Argument(metavar="SHELL", help="bash, zsh, fish, powershell or pwsh; else yours.")
]


@commands.add("install", "stepwell completion install", "stepwell completion install zsh", needs="nothing")
def install(session: CliSession, shell: Shell = "") -> None:
    """Install completion for a shell. It works in shells opened afterwards."""
    from typer._completion_shared import install as install_completion

    name, path = install_completion(**_program(_shell(shell)))
    if session.out.as_json:
        session.out.json({"shell": name, "path": str(path)})
    else:
        session.out.say(f"{name} completes stepwell from now on: {path}\nopen a new shell to use it")


@commands.add("show", "stepwell completion show bash >> ~/.bashrc", needs="nothing")
def show(session: CliSession, shell: Shell = "") -> None:
    """Print the completion script of a shell."""
    from typer._completion_shared import get_completion_script

    name = _shell(shell)
    script = get_completion_script(**_program(name))
    if session.out.as_json:
        session.out.json({"shell": name, "script": script})
    else:
        session.out.line(script)


def _program(name: str) -> dict[str, str]:
    """Return what typer needs to write a script for this program."""
    return {"shell": name, "prog_name": "stepwell", "complete_var": _VARIABLE}


def _shell(name: str) -> str:
    if not name:
        try:
            import shellingham  # type: ignore[import-untyped]

            name = shellingham.detect_shell()[0]
        except Exception:  # the parent is not a shell, as in a container
            name = ""
    if name not in SHELLS:
        what = f"completion for {name!r} is unknown" if name else "your shell is unknown"
        raise InvalidRequest(what, hint=f"name one of {', '.join(SHELLS)}")
    return name
