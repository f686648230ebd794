"""Verbs that decide what to build."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.face import signals
from railyard.face.verb import Page, Reply, Request, verb
from railyard.kit.errors import InputError
from railyard.kit.files import keep_existing, write_text

Report = Annotated[Path | None, typer.Option("--report", metavar="FILE.html", help="Write a page with pictures.")]


@verb(
    "plan designs",
    "Rank designs of a cluster; the word may be left out.",
    example="railyard plan examples/plan.yaml", group="decide", first=4,
    parts=["scenario", "ray"],
    json=True,
    quiet=True,
    out="runs",
    every_s=5.0,
    order=60,
    page=Page(
        "Plan", "Looks for the best cluster in `plan.space`: the front, how sure it is, what would change it.",
        order=1, name="plan",
    ),
)  # fmt: skip
def plan_designs(request: Request) -> Reply:
    """Find which cluster to build: the front of its objectives, how sure it is, and what would change it."""
    from railyard.ask.plan.study import plan
    from railyard.face.report import answer_page
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
        lambda: words.show(found, quiet=request.quiet),
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
    order=61,
)
def plan_growth(request: Request, *, report: Report = None) -> Reply:
    """Price the paths from a cluster to larger ones: what is bought, stranded and recabled, and the regret."""
    from railyard.ask.plan import growth, pages
    from railyard.face.words import plan as words

    draft = request.draft()
    found = growth.growth(draft)
    plain = growth.to_json(found)
    if report is not None:
        write_text(report, pages.growth_page(draft.title, plain))
    return Reply(found, lambda: words.show_growth(found), lambda: plain)


@verb(
    "plan worth",
    "Price a microsecond, a tail, a nine of availability.",
    example="railyard plan worth examples/first.yaml",
    group="decide",
    parts=["scenario"],
    json=True,
    quiet=True,
    order=62,
)
def plan_worth(request: Request, *, report: Report = None) -> Reply:
    """Say what a little more of each thing is worth to a training job: runs with and without it on the same draws."""
    from railyard.ask.plan import pages, worth
    from railyard.face.words import plan as words

    request.progress("reading the scenario", 0.0)
    found = worth.worth(request.draft(), request.progress)
    plain = worth.to_json(found)
    if report is not None:
        write_text(report, pages.worth_page(plain))
    return Reply(found, lambda: words.show_worth(found), lambda: plain)


@verb(
    "plan query",
    "Query kept plans and runs in SQL or by filters.",
    example="railyard plan query runs/plan-* --where 'cpmt < 0.3'",
    group="decide",
    json=True,
    order=63,
)
def plan_query(
    sources: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", help="Of a plan or a run, or of several; or a Parquet file.")
    ],
    *,
    sql: Annotated[str | None, typer.Option("--sql", metavar="TEXT", help="A SELECT over the table `points`.")] = None,
    where: Annotated[str, typer.Option("--where", metavar="TEXT", help="A condition, such as `cpmt < 0.3`.")] = "",
    columns: Annotated[str, typer.Option("--columns", metavar="A,B", help="Columns; all when left out.")] = "",
    sort: Annotated[str, typer.Option("--sort", metavar="NAME", help="The smallest first; `-NAME`: the largest.")] = "",
    most: Annotated[int | None, typer.Option("--most", min=1, metavar="N", help="Rows at most; 20.")] = None,
) -> Reply:
    """Ask the points of kept plans (a row a design, demand and engine), or the variants of kept runs."""
    from railyard.face.api.query import query, selecting
    from railyard.face.words import plan as words

    if sql is not None and (where or columns or sort or most is not None):
        raise InputError("a question is either `--sql` or made of the other options", key="--sql", found=sql)
    names = [name for name in columns.split(",") if name.strip()]
    found = query(sources, sql or selecting(where=where, columns=names, sort=sort, most=most or 20))
    rows = found.iter_rows(named=True)
    return Reply(found, lambda: words.show_rows(found), lambda: [words.plain(row) for row in rows])


@verb(
    "plan serving",
    example="railyard plan serving examples/serving/plan.yaml",
    group="decide",
    parts=["scenario"],
    json=True,
    quiet=True,
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
        lambda: words.show_serving(planned, write, quiet=request.quiet),
        lambda: deployments.to_json(planned),
    )
