"""`railyard validate`: its commands and their options; what they do is in `printing`, imported when one runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.face.terminal import Json, Ray  # noqa: TC001 - typer reads the annotations when it runs
from railyard.kit.errors import InputError

app = typer.Typer(help="Predicted against measured, row by row.", no_args_is_help=True, rich_markup_mode=None)

PageFile = Annotated[
    Path | None,
    typer.Option("--page", metavar="FILE", help="Write a page, FILE.md or FILE.html: plots, table, worst rows."),
]


@app.command("training")
def training(
    *,
    table: Annotated[Path, typer.Option("--table", metavar="FILE.csv", help="Measured training steps.")],
    leave_out: Annotated[
        str | None,
        typer.Option(
            "--leave-out",
            metavar="PART",
            help="source, model or hidden: predict each with constants fitted without it, on this table.",
        ),
    ] = None,
    page: PageFile = None,
    json: Json = False,
) -> None:
    """Predict every measured training step of a table."""
    from railyard_validation import printing

    printing.training(table, leave_out=leave_out, page=page, as_json=json)


@app.command("memory")
def memory(
    *,
    table: Annotated[Path, typer.Option("--table", metavar="FILE.csv", help="Measured training runs.")],
    page: PageFile = None,
    json: Json = False,
) -> None:
    """Predict every published peak of memory of a table."""
    from railyard_validation import printing

    printing.memory(table, page=page, as_json=json)


@app.command("serving")
def serving(
    *,
    table: Annotated[Path | None, typer.Option("--table", metavar="FILE.csv", help="Measured serving rows.")] = None,
    metric: Annotated[
        str, typer.Option("--metric", metavar="METRIC", help="Of a table: tpot, ttft, throughput, power or cost.")
    ] = "tpot",
    runs: Annotated[
        Path | None,
        typer.Option("--runs", metavar="FOLDER", help="Recorded runs, in the place of a table: request by request."),
    ] = None,
    profiles: Annotated[
        Path | None,
        typer.Option("--profiles", metavar="FILE.toml", help="Of runs: constants that `calibrate serving` wrote."),
    ] = None,
    page: PageFile = None,
    json: Json = False,
) -> None:
    """Predict every measured serving row of a table, or every request of recorded runs."""
    from railyard_validation import printing

    if table is not None and runs is None:
        printing.serving(table, metric=metric, page=page, as_json=json)
    elif runs is not None and table is None:
        printing.serving_runs(runs, profiles=profiles, page=page, as_json=json)
    else:
        raise InputError("either `--table FILE.csv` or `--runs FOLDER` is needed", key="table")


@app.command("collectives")
def collectives(
    *,
    logs: Annotated[Path, typer.Option("--logs", metavar="FOLDER", help="Logs of collective benchmarks.")],
    page: PageFile = None,
    json: Json = False,
) -> None:
    """Predict every measured collective of a folder of logs."""
    from railyard_validation import printing

    printing.collectives(logs, page=page, as_json=json)


@app.command("htsim")
def htsim(
    *,
    folder: Annotated[
        Path, typer.Option("--folder", metavar="FOLDER", help="Matrices, topologies and recorded answers of htsim.")
    ],
    only: Annotated[str, typer.Option("--only", metavar="TEXT", help="Rows whose name holds this text.")] = "",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Seeds of rows that depend on the hash.")] = 20,
    json: Json = False,
) -> None:
    """Run what htsim has run and compare completion times, row by row."""
    from railyard_validation import printing

    printing.htsim(folder, only=only, seeds=seeds, as_json=json)


@app.command("bills")
def bills(
    *,
    table: Annotated[Path, typer.Option("--table", metavar="FILE.csv", help="Items of published designs.")],
    json: Json = False,
) -> None:
    """Compare bills of materials of published designs with ours, item by item."""
    from railyard_validation import printing

    printing.bills(table, as_json=json)


@app.command("fabric")
def fabric(
    *,
    figure: Annotated[
        list[str] | None, typer.Option("--figure", metavar="NAME", help="One figure, such as F1; may be repeated.")
    ] = None,
    json: Json = False,
) -> None:
    """Run published figures of fabrics again and compare."""
    from railyard_validation import printing

    printing.fabric(figure or [], as_json=json)


@app.command("synthesis")
def synthesis(*, json: Json = False) -> None:
    """Synthesize TE-CCL's published collectives and compare finishes at the same bytes a pair of ranks."""
    from railyard_validation import printing

    printing.synthesis(as_json=json)


@app.command("faults")
def faults(
    *,
    only: Annotated[
        str, typer.Option("--only", metavar="TEXT", help="Kinds of fault whose name holds this text.")
    ] = "",
    page: PageFile = None,
    json: Json = False,
) -> None:
    """Compare fabrics under faults, and hold every step against bounds that are worked out by hand."""
    from railyard_validation import printing

    printing.faults(only, page=page, as_json=json)


@app.command("trials")
def trials(
    *,
    only: Annotated[str, typer.Option("--only", metavar="TEXT", help="Trials whose name contains this text.")] = "",
    variants: Annotated[int, typer.Option("--variants", min=1, help="Random variants of each trial.")] = 4,
    seed: Annotated[int, typer.Option("--seed", help="Of the variants.")] = 25,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="FOLDER", help="Keep the files of every variant here.")
    ] = None,
    ray: Ray = None,
    json: Json = False,
) -> None:
    """Ask questions that were once answered wrongly, in random variants."""
    from railyard_validation import printing

    printing.trials(only, variants=variants, seed=seed, folder=folder, ray=ray, as_json=json)


@app.command("diagnosis")
def diagnosis(
    *,
    count: Annotated[int, typer.Option("--count", min=1, help="Cases; situations come round again after 60.")] = 60,
    seed: Annotated[int, typer.Option("--seed", help="Of the cases.")] = 25,
    noise: Annotated[float, typer.Option("--noise", min=0.0, help="Factor on what differs by chance.")] = 1.0,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="FOLDER", help="Keep the traces of every case here.")
    ] = None,
    ray: Ray = None,
    json: Json = False,
) -> None:
    """Diagnose traces of jobs with known faults, written by a generator that shares nothing with the simulator."""
    from railyard_validation import printing

    printing.diagnosis(count, seed=seed, noise=noise, folder=folder, ray=ray, as_json=json)
