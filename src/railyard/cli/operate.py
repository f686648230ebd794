"""`railyard operate`: a scenario in time, and forecasts from recorded faults."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

from railyard.cli.tables import Table, emit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PLAY = "scenario"
"""The command that a name of a file stands for."""


class Operating(TyperGroup):
    """Commands, or the name of a scenario in the place of one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """What is no command is a scenario."""
        if args and args[0] not in self.commands:
            args = [PLAY, *args]
        return super().resolve_command(ctx, args)


HEADINGS = (
    "variant",
    "jobs done",
    "JCT p50 / p99",
    "queue mean / p99",
    "slowdown p50",
    "utilization",
    "goodput",
    "nodes in shared groups",
    "$/useful GPU-h low/typ/high",
)


def scenario(file: Path, *, sets: Sequence[str], varies: Sequence[str], out: Path, as_json: bool, quiet: bool) -> None:
    """Plays a scenario and prints its figures.

    Raises:
        InputError: The scenario or its trace is wrong.
    """
    from railyard.cli.progress import Progress
    from railyard.operate.study import operate
    from railyard.scenario import load

    with Progress(wanted=not quiet) as progress:
        progress("reading the scenario", 0.0)
        finished = operate(load.load(file, sets), varies, out=out, progress=progress)
    if as_json:
        emit(json.dumps(finished.result, ensure_ascii=False, allow_nan=False))
        return
    _comparison(finished.result)
    emit("")
    _time(finished.result)
    if len(finished.result["variants"]) == 1 and len(finished.result["variants"][0]["tenants"]) > 1:
        emit("")
        _tenants(finished.result["variants"][0])
    worst = [(one["name"], row) for one in finished.result["variants"] for row in one["slowed_by"][:3]]
    if worst:
        emit("")
        _noisy(worst)
    if not quiet:
        words = [f"{one['name']}: {note}" for one in finished.result["variants"] for note in one["notes"]]
        emit("\n".join(["", *words, f"folder: {finished.folder}"]))


def _comparison(result: dict[str, Any]) -> None:
    from railyard.api import numbers

    table = Table(HEADINGS, range(1, len(HEADINGS)), turn=True)
    for one in result["variants"]:
        jct, queue = one["jct_s"], one["queue_s"]
        usd = one["usd"]["per_useful_accelerator_hour"]
        table.add(
            one["name"],
            f"{one['jobs']['done']:,} of {one['jobs']['all']:,}",
            f"{numbers.seconds(jct.get('p50'))} / {numbers.seconds(jct.get('p99'))}",
            f"{numbers.seconds(queue.get('mean'))} / {numbers.seconds(queue.get('p99'))}",
            numbers.short(one["slowdown"].get("p50")),
            numbers.percent(one["utilization"]),
            numbers.percent(one["goodput"]),
            numbers.percent(one["fragmentation"]["nodes_in_shared_groups"]),
            " / ".join(numbers.short(usd[end]) for end in ("low", "typical", "high")),
        )
    table.print()


def _time(result: dict[str, Any]) -> None:
    """Where the accelerators' time went."""
    from railyard.api import numbers

    names = list(result["variants"][0]["time"])
    table = Table(("accelerator time", *names), range(1, len(names) + 1), turn=True)
    for one in result["variants"]:
        table.add(one["name"], *(numbers.percent(one["time"][name]) for name in names))
    table.print()


def _noisy(rows: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Who cost whom most."""
    from railyard.api import numbers

    table = Table(("variant", "job", "most slowed by", "GPU-h lost"), (3,))
    for name, row in rows:
        table.add(name, row["job"], row["by"], numbers.short(row["accelerator_hours"]))
    table.print()


def _tenants(variant: dict[str, Any]) -> None:
    from railyard.api import numbers

    heads = ("tenant", "jobs", "GPU-h", "useful", "queue mean", "JCT p50", "finish-time fairness", "$/useful GPU-h")
    table = Table(heads, range(1, len(heads)), turn=True)
    for name, row in variant["tenants"].items():
        table.add(
            name,
            f"{row['jobs']:,}",
            numbers.short(row["accelerator_hours"]),
            numbers.short(row["useful_accelerator_hours"]),
            numbers.seconds(row["queue_s"].get("mean")),
            numbers.seconds(row["jct_s"].get("p50")),
            numbers.short(row["finish_time_fairness"].get("mean")),
            numbers.short(row.get("usd_per_useful_accelerator_hour", {}).get("typical")),
        )
    table.print()


def failures(fit: Path, *, servers: int, days: float, as_json: bool) -> None:
    """Forecasts faults from recorded ones.

    Raises:
        InputError: The file is wrong, or too short for a forecast.
    """
    from railyard.operate.failures import history
    from railyard.operate.failures.forecast import forecast

    found = forecast(history.read(fit, servers, days))
    if as_json:
        emit(json.dumps(found.plain()))
        return
    table = Table(("what the coming weeks bring", "low", "mean or p50", "high, p90 or p95"), (1, 2, 3))
    table.add("faults a week", f"{found.low:.1f}", f"{found.mean:.1f}", f"{found.high:.1f}")
    table.add("hours until a server is back", "", f"{found.repair_p50_h:.0f}", f"{found.repair_p90_h:.0f}")
    table.add("servers away at once", "", f"{found.out_mean:.1f}", f"{found.out_p95:.0f}")
    table.print()
