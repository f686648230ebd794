"""Commands that decide what to build, and play what was built."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.face.cli.completion import RUNS, Json, Out, Quiet, Scenario, Set, Vary
from railyard.face.cli.installed import DESIGNS, operating, planning
from railyard.face.cli.operate import PLAY

Report = Annotated[Path | None, typer.Option("--report", metavar="FILE.html", help="Write a page with pictures.")]


@planning.command(DESIGNS, short_help="Look for the best cluster; the word may be left out.")
def plan_designs(
    file: Annotated[Path, typer.Argument(metavar="PLAN", help="A scenario with `plan.space`, a YAML file.")],
    *,
    set_: Set = None,
    ray: Annotated[str | None, typer.Option("--ray", metavar="ADDRESS", help="Run on a Ray cluster.")] = None,
    out: Out = RUNS,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find which cluster to build: the front of its objectives, how sure it is, and what would change it."""
    from railyard.face.cli import plan_designs as designer

    designer.designs(file, sets=set_ or [], out=out, ray=ray, as_json=json, quiet=quiet)


@planning.command("growth", short_help="What it costs to grow a cluster, by path and future.")
def plan_growth(file: Scenario, *, set_: Set = None, report: Report = None, json: Json = False) -> None:
    """Price the paths from a cluster to larger ones: what is bought, stranded and cabled anew, and the regret."""
    from railyard.face.cli import plan as grower

    grower.growth(file, sets=set_ or [], report=report, as_json=json)


@planning.command("worth", short_help="Dollars a microsecond, a tail, a nine of availability; carbon.")
def plan_worth(
    scenario: Scenario,
    *,
    set_: Set = None,
    report: Report = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say what a little more of each thing is worth to a training job: runs with and without it on the same draws."""
    from railyard.face.cli import plan as teller

    teller.worth(scenario, sets=set_ or [], report=report, as_json=json, quiet=quiet)


@planning.command("query", short_help="Ask kept plans and runs in SQL, or by filters.")
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
    from railyard.face.cli import plan as asking

    asking.ask(sources, sql=sql, where=where, columns=columns, sort=sort, most=most, as_json=json)


@planning.command("serving")
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
    from railyard.face.cli import plan as planner

    planner.serving(scenario, sets=set_ or [], write=write, as_json=json, quiet=quiet)


@operating.command(PLAY, short_help="Play a scenario; the word may be left out.")
def operate_scenario(
    scenario: Scenario,
    *,
    vary: Vary = None,
    set_: Set = None,
    out: Out = RUNS,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Play the jobs of a scenario: who waits, who runs where, what breaks, what an hour of use costs."""
    from railyard.face.cli import operate

    operate.scenario(scenario, sets=set_ or [], varies=vary or [], out=out, as_json=json, quiet=quiet)


@operating.command("failures", short_help="What recorded faults say of the coming weeks.")
def operate_failures(
    *,
    fit: Annotated[Path, typer.Option("--fit", metavar="FILE.csv", help="Faults: day, node, event.")],
    servers: Annotated[int, typer.Option("--servers", min=1, metavar="N", help="Servers that were watched.")],
    days: Annotated[float, typer.Option("--days", min=0.0, metavar="D", help="For how long, from day 0.")],
    json: Json = False,
) -> None:
    """Forecast faults a week, repair times and servers away at once, with bands, from recorded faults."""
    from railyard.face.cli import operate

    operate.failures(fit, servers=servers, days=days, as_json=json)
