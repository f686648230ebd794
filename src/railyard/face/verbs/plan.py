"""Verbs that decide what to build."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.face import signals
from railyard.face.options import Json, Quiet, Scenario, Set
from railyard.face.verb import Page, Reply, Request, verb

Report = Annotated[Path | None, typer.Option("--report", metavar="FILE.html", help="Write a page with pictures.")]


@verb(
    "plan designs",
    "Look for the best cluster; the word may be left out.",
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
        found.answer.text,
        lambda: words.show(found, quiet=request.quiet),
        folder=found.folder,
        stopped=words.so_far(found.planned) if found.planned.stopped == "user" else "",
    )


@verb("plan growth", "What it costs to grow a cluster, by path and future.", order=61)
def plan_growth(file: Scenario, *, set_: Set = None, report: Report = None, json: Json = False) -> None:
    """Price the paths from a cluster to larger ones: what is bought, stranded and recabled, and the regret."""
    from railyard.face.words import plan as grower

    grower.growth(file, sets=set_ or [], report=report, as_json=json)


@verb("plan worth", "Dollars a microsecond, a tail, a nine of availability; carbon.", order=62)
def plan_worth(
    scenario: Scenario,
    *,
    set_: Set = None,
    report: Report = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say what a little more of each thing is worth to a training job: runs with and without it on the same draws."""
    from railyard.face.words import plan as teller

    teller.worth(scenario, sets=set_ or [], report=report, as_json=json, quiet=quiet)


@verb("plan query", "Ask kept plans and runs in SQL, or by filters.", order=63)
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
    json: Json = False,
) -> None:
    """Ask the points of kept plans (a row a design, demand and engine), or the variants of kept runs."""
    from railyard.face.words import plan as asking

    asking.ask(sources, sql=sql, where=where, columns=columns, sort=sort, most=most, as_json=json)


@verb("plan serving", order=64)
def plan_serving(
    scenario: Scenario,
    *,
    set_: Set = None,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE.yaml", help="Write a scenario with the best plan.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the cheapest hardware, layout and replicas for each stage of a pipeline, within its objective."""
    from railyard.face.words import plan as planner

    planner.serving(scenario, sets=set_ or [], write=write, as_json=json, quiet=quiet)
