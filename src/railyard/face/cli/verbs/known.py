"""Commands over the catalogue, and over readings of the hardware at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.face.cli.completion import Extra, Force, Json
from railyard.face.cli.installed import calibration, catalog


def catalogue_names(incomplete: str) -> list[str]:
    """What a shell completes to names of the catalogue."""
    from railyard.face.cli import completion as completing

    return completing.entries(incomplete)


@catalog.command("list")
def catalog_list(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help="One kind only, such as accelerators.")] = None,
    json: Json = False,
    extra: Extra = None,
) -> None:
    """List what the catalogue holds."""
    from railyard.face.cli import catalog as command

    command.list_entries(kind, extra=extra, as_json=json)


@catalog.command("show")
def catalog_show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name or alias of an entry, or a model's config.json.",
            autocompletion=catalogue_names,
        ),
    ],
    json: Json = False,
    extra: Extra = None,
) -> None:
    """Show an entry: every value with its unit, source, year and confidence."""
    from railyard.face.cli import catalog as command

    command.show_entry(name, extra=extra, as_json=json)


@catalog.command("server", short_help="Make a server for a catalogue of your own from NCCL's topology file.")
def catalog_server(
    file: Annotated[Path, typer.Argument(metavar="FILE.xml", help="As NCCL or RCCL wrote it: NCCL_TOPO_DUMP_FILE.")],
    *,
    accelerator: Annotated[
        str, typer.Option("--accelerator", metavar="NAME", help="Which it has, where the file does not say.")
    ] = "",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Of the new entry.")] = "my-server",
    extra: Extra = None,
) -> None:
    """Make a server from NCCL's topology file: accelerators, NICs, domains, PCIe; the rest as its nearest like."""
    from railyard.face.cli import catalog as command

    command.server_of(file, accelerator=accelerator, name=name, extra=extra)


@calibration.command("device")
def calibrate_device(
    *,
    device: Annotated[
        str,
        typer.Option("--device", metavar="KIND", help="auto or cuda (ROCm too) through PyTorch; cpu through NumPy."),
    ] = "auto",
    entry: Annotated[
        str | None, typer.Option("--entry", metavar="NAME", help="Catalogue entry that the device is.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.yaml", help="Write a catalogue file with what was measured.")
    ] = None,
    force: Force = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer shapes: seconds instead of minutes.")] = False,
    collectives: Annotated[
        bool, typer.Option("--collectives/--no-collectives", help="Measure collectives between several devices.")
    ] = True,
    json: Json = False,
) -> None:
    """Measure the accelerator at hand, compare it with the model, and write it as a catalogue file."""
    from railyard.face.cli import calibrate

    calibrate.device(device, entry=entry, out=out, force=force, quick=quick, collectives=collectives, as_json=json)


@calibration.command("runs")
def calibrate_runs(
    *,
    table: Annotated[
        Path, typer.Option("--table", metavar="FILE", help="Your measurements; what they are, their columns tell.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.toml", help="Write the constants that were fitted.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Fit constants to a few measurements of your own, with how sure they are."""
    from railyard.face.cli import calibrate

    calibrate.runs(table, out=out, force=force, as_json=json)


@calibration.command("serving")
def calibrate_serving(
    *,
    runs: Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Recorded runs of a serving engine.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.toml", help="Write the constants that were fitted.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Fit the constants of an engine on your devices from recorded runs, for `validate serving --profiles`."""
    from railyard.face.cli import calibrate

    calibrate.serving(runs, out=out, force=force, as_json=json)
