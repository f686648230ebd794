"""Commands of other packages: entry points of the group `railyard.commands`, imported when one of them runs.

An entry point names a `typer.Typer` or a command of Typer; the summary of its package is its line of `railyard --help`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from railyard.face.cli import signals, verbs
from railyard.face.cli.operate import Operating
from railyard.kit.errors import InputError, RailyardError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint


DESIGNS = "designs"
"""The command that a name of a file stands for."""


class Planning(TyperGroup):
    """Commands, or the name of a plan in the place of one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """What is no command is a plan, which says itself when it is ready to be stopped."""
        if args and args[0] not in self.commands:
            args = [DESIGNS, *args]
        if args and args[0] != DESIGNS:
            signals.ready()
        return super().resolve_command(ctx, args)


GROUP = "railyard.commands"
EXTRAS = {"validate": "validation"}
"""Commands of Railyard that come with an extra."""


class Commands(TyperGroup):
    """The built-in commands, then those of installed packages by name."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the help."""
        return [*super().list_commands(ctx), *sorted(installed().keys() - self.commands.keys())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A built-in command, or the name and the line of an installed one, without importing it."""
        entry = None if cmd_name in self.commands else installed().get(cmd_name)
        return super().get_command(ctx, cmd_name) if entry is None else TyperCommand(cmd_name, help=summary(entry))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is going to run: an installed one is imported here.

        Raises:
            InputError: It comes with an extra that is not installed.
            RailyardError: The package that has it cannot be imported.
        """
        name = args[0]
        if name in self.commands:
            return super().resolve_command(ctx, args)
        if name in installed():
            return name, load(installed()[name]), args[1:]
        if name in EXTRAS:
            raise InputError(f"`railyard {name}` is not installed: `pip install railyard[{EXTRAS[name]}]` adds it")
        return super().resolve_command(ctx, args)


@cache
def installed() -> Mapping[str, EntryPoint]:
    """Commands of installed packages by name."""
    from importlib import metadata

    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def summary(entry: EntryPoint) -> str:
    """What the package says of itself in one line."""
    return str(entry.dist.metadata["Summary"]) if entry.dist else ""


def load(entry: EntryPoint) -> Any:
    """The command of an entry point.

    Raises:
        RailyardError: It cannot be imported.
    """
    try:
        found = entry.load()
    except (ImportError, AttributeError) as error:
        raise RailyardError(f"the command `{entry.name}` cannot be imported from {entry.value}: {error}") from error
    return typer.main.get_command(found) if isinstance(found, typer.Typer) else found


app = typer.Typer(
    name="railyard",
    cls=Commands,
    help="How long do the GPUs of a cluster wait on the network, why, and what does it cost?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
catalog = typer.Typer(
    help="What is known about hardware, models and prices, with sources.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(catalog, name="catalog")
calibration = typer.Typer(
    help="Measure the hardware at hand and keep what was read.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(calibration, name="calibrate")
planning = typer.Typer(
    cls=Planning, help="What should be built: `railyard plan PLAN`.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(planning, name="plan")

laboratory = typer.Typer(
    help="A lab on this machine: programs over shaped links, in network namespaces.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(laboratory, name="lab")

operating = typer.Typer(
    cls=Operating,
    help="Play many jobs on one cluster for months: `railyard operate SCENARIO`.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(operating, name="operate")


def _version(asked: bool) -> None:
    if asked:
        from railyard import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


__all__ = ["app", "calibration", "catalog", "command", "operating", "planning"]

verbs.load()


def command() -> Any:
    """The whole command line as one command."""
    return typer.main.get_command(app)
