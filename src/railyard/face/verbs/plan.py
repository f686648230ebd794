"""Verbs that decide what to build."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.face import signals
from railyard.face.verb import Page, Reply, Request, verb
from railyard.kit.errors import InputError
from railyard.kit.files import keep_existing, write_text
from railyard.measure.numbers import finite_or_null

Report = Annotated[Path | None, typer.Option("--report", metavar="FILE.html", help="Write a page with pictures.")]


@verb(
    "plan designs",
    "Rank designs of a cluster (the default).",
    example="railyard plan examples/plan.yaml", group="decide", first=4,
    parts=["scenario", "ray"],
    json=True,
    quiet=True,
    details=True,
    out="runs",
    every_s=5.0,
    shorter="`--set plan.effort.time=2min` takes the best by then; after Ctrl-C the same command goes on",
    order=60,
    page=Page(
        "Plan", "Finds the best cluster in `plan.space`, how sure that is, and what would change the choice.",
        order=1, name="plan",
    ),
)  # fmt: skip
def plan_designs(request: Request) -> Reply:
    """Find the cluster to build, how sure that is, and what would change the choice."""
    from railyard.ask.plan.study import plan
    from railyard.face.reports import answer_page
    from railyard.face.words import plan_designs as words

    request.progress("reading the plan", 0.0)
    found = plan(
        request.draft(),
        out=request.runs,
        pool=request.pool,
        faces=[answer_page],
        report=request.progress,
        ready=lambda: signals.ready(once=True),
    )
    return Reply(
        found.answer,
        lambda: words.show(found, quiet=request.quiet, details=request.details),
        headline=found.answer.sentence(),
        folder=found.folder,
        stopped=words.so_far(found.planned) if found.planned.stopped == "user" else "",
    )


@verb(
    "plan growth",
    "Compare ways to grow a cluster.",
    example="railyard plan growth examples/plan/growth.yaml",
    group="decide",
    parts=["scenario"],
    json=True,
    details=True,
    order=61,
)
def plan_growth(request: Request, *, report: Report = None) -> Reply:
    """Price the paths from a cluster to larger ones: purchases, stranded parts, recabling, and the regret of each."""
    from railyard.ask.plan import growth, memo
    from railyard.face.words import plan as words

    draft = request.draft()
    found = growth.growth(draft)
    plain, sentence = growth.to_json(found), words.growth_sentence(found)
    if report is not None:
        write_text(report, memo.growth_page(draft.title, sentence, plain))
    return Reply(
        found,
        lambda: words.show_growth(found, details=request.details),
        lambda: plain,
        headline=sentence,
    )


@verb(
    "plan worth",
    "Price a microsecond, a tail, a nine of availability.",
    example="railyard plan worth examples/first.yaml",
    group="decide",
    parts=["scenario"],
    json=True,
    quiet=True,
    details=True,
    order=62,
)
def plan_worth(request: Request, *, report: Report = None) -> Reply:
    """Price small changes for a training job: a microsecond, a tail, a nine. Runs with and without it, same draws."""
    from railyard.ask.plan import memo, worth
    from railyard.face.words import plan as words

    request.progress("reading the scenario", 0.0)
    found = worth.worth(request.draft(), request.progress)
    plain, sentence = worth.to_json(found), words.worth_sentence(found)
    if report is not None:
        write_text(report, memo.worth_page(sentence, plain))
    return Reply(
        found,
        lambda: words.show_worth(found, details=request.details),
        lambda: plain,
        headline=sentence,
    )


@verb(
    "plan query",
    "Query kept plans and runs in SQL or by filters.",
    example="railyard plan query runs/plan-* --where 'cpmt < 0.3'",
    group="decide",
    json=True,
    details=True,
    order=63,
)
def plan_query(
    request: Request,
    sources: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", help="Folder of a plan or a run, or several; or a Parquet file.")
    ],
    *,
    sql: Annotated[str | None, typer.Option("--sql", metavar="TEXT", help="A SELECT over the table `points`.")] = None,
    where: Annotated[str, typer.Option("--where", metavar="TEXT", help="A condition, such as `cpmt < 0.3`.")] = "",
    columns: Annotated[str, typer.Option("--columns", metavar="A,B", help="Columns to print.")] = "",
    sort: Annotated[str, typer.Option("--sort", metavar="NAME", help="Smallest first; `-NAME`: largest first.")] = "",
    most: Annotated[
        int | None, typer.Option("--most", min=1, metavar="N", help="Most rows to print; default: 20.")
    ] = None,
) -> Reply:
    """Query the designs of kept plans (a row per design, demand and engine), or the variants of kept runs."""
    from railyard.face.api.query import query, selecting
    from railyard.face.words import plan as words

    if sql is not None and (where or columns or sort or most is not None):
        raise InputError("use either `--sql` or the other options", key="--sql", found=sql)
    names = [name for name in columns.split(",") if name.strip()]
    found = query(sources, sql or selecting(where=where, columns=names, sort=sort, most=most or 20))
    rows = found.iter_rows(named=True)
    whole = request.details or bool(sql or names)
    return Reply(
        found,
        lambda: words.show_rows(found, whole=whole),
        lambda: finite_or_null([*rows]),
        headline=words.rows_sentence(found),
    )


@verb(
    "plan serving",
    example="railyard plan serving examples/serving/plan.yaml",
    group="decide",
    parts=["scenario"],
    json=True,
    quiet=True,
    details=True,
    order=64,
)
def plan_serving(
    request: Request,
    *,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE.yaml", help="Write a scenario with the best plan.")
    ] = None,
) -> Reply:
    """Find the cheapest hardware, layout and replicas for each stage of a pipeline, within its objective."""
    from railyard.ask.plan import deployments
    from railyard.face.words import plan as words

    keep_existing(write, force=True)
    request.progress("reading the scenario", 0.0)
    planned = deployments.plan(request.draft(), request.progress)
    if write is not None and planned.best_yaml:
        write_text(write, planned.best_yaml)
    return Reply(
        planned,
        lambda: words.show_serving(planned, write, quiet=request.quiet, details=request.details),
        lambda: deployments.to_json(planned),
        headline=words.serving_sentence(planned),
    )
