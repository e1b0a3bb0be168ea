"""Commands: functions that typer turns into commands, with the options that all of them share.

A command is a function whose first parameter is the session. Its docstring is its help, and it has examples.
It is built when it is asked for: the help of a group imports nothing that a command needs.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from typing import Annotated, Any, Literal, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from stepwell.cli.help import command_help, group_help

Needs = Literal["nothing", "database"]

CONTEXT = {"help_option_names": ["-h", "--help"]}
_FLAGS = ("--json", "--no-color")
_VALUED = ("--database", "-d", "--server", "--workspace", "--codec", "--api-key")
_PLAIN: dict[str, tuple[Any, Any]] = {
    "json": (
        Annotated[bool, typer.Option("--json", help="Print JSON on stdout.", show_default=False)],
        False,
    ),
    "no_color": (
        Annotated[bool, typer.Option("--no-color", help="Print no colours.", show_default=False)],
        False,
    ),
}
_DATABASE: dict[str, tuple[Any, Any]] = {
    "database": (
        Annotated[
            str,
            typer.Option(
                "--database",
                "-d",
                metavar="URL",
                help="SQLite file, postgresql://... or the http(s):// address of a server. Else "
                "STEPWELL_DATABASE, stepwell.db, or .stepwell/dev.db.",
            ),
        ],
        "",
    ),
    "server": (
        Annotated[
            str,
            typer.Option(
                "--server",
                metavar="URL",
                help="Address of a server, instead of --database. By default STEPWELL_SERVER.",
            ),
        ],
        "",
    ),
    "workspace": (
        Annotated[str, typer.Option("--workspace", metavar="NAME", help="Workspace; else `default`.")],
        "",
    ),
    "codec": (
        Annotated[
            str,
            typer.Option(
                "--codec",
                metavar="MODULE:NAME",
                help="Codec of an encrypted or compressed database. Else STEPWELL_CODEC, or the key in "
                "STEPWELL_ENCRYPTION_KEY=name:base64.",
            ),
        ],
        "",
    ),
    "api_key": (
        Annotated[
            str, typer.Option("--api-key", metavar="KEY", help="Key for a server; else STEPWELL_API_KEY.")
        ],
        "",
    ),
}
SHARED = {"nothing": _PLAIN, "database": {**_DATABASE, **_PLAIN}}


class PlainHelp:
    """A command whose --help option does not load pydantic either."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)  # type: ignore[misc]
        read_plainly(option)
        return option


class CliCommand(PlainHelp, TyperCommand):
    """One command; its help ends with its examples."""

    examples: tuple[str, ...] = ()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(command_help(self, ctx))


def read_plainly(parameter: Any) -> None:
    """Read texts and whole numbers without pydantic, whose import takes longer than everything else here."""
    if hasattr(parameter, "_runtime_param"):
        parameter._runtime_param = _Plain()


class _Plain:
    """Reads the value of a parameter: text, a whole number within limits, or a list of texts."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        many = param.multiple or param.nargs == -1
        if value is None or many:
            return list(value or ()) if many else None
        if param.type_descriptor.annotation is not int:
            return value
        try:
            number = int(value)
        except ValueError:
            number = None
        low, high = param.min, param.max
        if number is None or (low is not None and number < low) or (high is not None and number > high):
            wanted = "a whole number" + (f", {low} or more" if low is not None else "")
            wanted += f", {high} or less" if high is not None else ""
            raise typer.BadParameter(f"{str(value)[:60]!r} is not {wanted}", ctx=ctx, param=param)
        return number


@dataclass(frozen=True)
class CommandEntry:
    """A command of a group that has not been built yet."""

    name: str
    function: Callable[..., Any]
    examples: tuple[str, ...]
    needs: Needs
    hidden: bool = False

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def build(self) -> CliCommand:
        single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        help = inspect.getdoc(self.function)
        single.command(self.name, cls=CliCommand, help=help, hidden=self.hidden, context_settings=CONTEXT)(
            self._callback()
        )
        command = typer.main.get_command(single)
        assert isinstance(command, CliCommand)
        command.examples = self.examples
        for parameter in command.params:
            read_plainly(parameter)
        return command

    def _callback(self) -> Callable[..., Any]:
        function, shared = self.function, SHARED[self.needs]
        hints = get_type_hints(function, include_extras=True)
        groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}

        def call(**values: Any) -> Any:
            from stepwell.cli.session import CliSession

            session = CliSession(**{name: values.pop(name) for name in shared})
            for name, kind in groups.items():
                values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            answer = function(session, **values)
            return asyncio.run(answer) if inspect.iscoroutine(answer) else answer

        own: list[inspect.Parameter] = []
        for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
            if name in groups:
                own += _parameters(groups[name])
            else:
                own.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in shared.items()
        ]
        call.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *more]}
        return call


def _parameters(kind: Any) -> list[inspect.Parameter]:
    """Return the fields of a dataclass as options, for commands that share them."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default if field.default_factory is MISSING else field.default_factory(),
            annotation=hints[field.name],
        )
        for field in fields(kind)
    ]


class Commands:
    """The commands of one module, in the order of its help."""

    def __init__(self, help: str = "") -> None:
        self.help = help
        self.entries: dict[str, CommandEntry] = {}

    def add(
        self, name: str, *examples: str, needs: Needs = "database", hidden: bool = False
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the decorated function as a command of that name; `examples` are whole command lines."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self.entries[name] = CommandEntry(name, function, examples, needs, hidden)
            return function

        return register


class Group(PlainHelp, TyperGroup):
    """A group of commands, such as `stepwell runs`; each is built when it is asked for."""

    source: Commands = Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.source.entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = self.source.entries.get(cmd_name)
        return None if entry is None else entry.build()

    def summaries(self) -> Iterator[tuple[str, str]]:
        yield from ((entry.name, entry.summary) for entry in self.source.entries.values() if not entry.hidden)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.commands = {name: None for name in self.list_commands(ctx)}  # type: ignore[misc]  # for suggestions
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(group_help(self, ctx))


@dataclass(frozen=True)
class Place:
    """Where a command of the first level is: its modules, and its line in the help."""

    modules: str
    summary: str
    section: str
    group: bool = False

    @cached_property
    def commands(self) -> Commands:
        places = [place.partition(":") for place in self.modules.split()]
        modules = [(import_module(f"stepwell.cli.commands.{name}"), own) for name, _, own in places]
        parts: list[Commands] = [getattr(module, own or "commands") for module, own in modules]
        whole = Commands(parts[0].help)
        for part in parts:
            whole.entries |= part.entries
        return whole

    def build(self, name: str) -> Any:
        if not self.group:
            return self.commands.entries[name].build()
        group = Group(name=name, help=self.commands.help, context_settings=CONTEXT)
        group.source = self.commands
        return group


def hoisted(arguments: list[str], is_group: Callable[[str], bool]) -> list[str]:
    """Move shared options that precede a command after it, so that they may stand anywhere."""
    words: list[str] = []
    options: list[str] = []
    rest = list(arguments)
    while rest:
        name, mark, _ = rest[0].partition("=")
        if name in _FLAGS:
            options.append(rest.pop(0))
        elif name in _VALUED and (mark or len(rest) > 1):
            options += [rest.pop(0)] if mark else [rest.pop(0), rest.pop(0)]
        elif rest[0].startswith("-") or (words and not is_group(words[-1])) or len(words) == 2:
            break
        else:
            words.append(rest.pop(0))
    return [*words, *options, *rest] if words else [*options, *rest]
