"""The command line and its groups, to which the modules of `verbs/` add commands."""

from __future__ import annotations

from typing import Annotated

import typer

from railyard.face.cli.installed import Commands
from railyard.face.cli.operate import Operating
from railyard.face.cli.planning import Planning

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
