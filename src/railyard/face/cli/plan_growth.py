"""`railyard plan growth`: paths from a cluster to larger ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from railyard.ask.plan.growth import page, paths
from railyard.ask.plan.growth.provision import provisions
from railyard.face.api import numbers
from railyard.face.cli import messages
from railyard.face.cli.tables import Table, emit
from railyard.kit.files import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.ask.plan.growth.paths import Growth


def growth(file: Path, *, sets: Sequence[str], report: Path | None, as_json: bool) -> None:
    """Prints what paths of growth cost, and what each regrets where growth ends early.

    Raises:
        InputError: The plan is wrong.
    """
    draft = messages.scenario(file, sets)
    found = paths.growth(draft)
    result = paths.to_json(found)
    if report is not None:
        write_text(report, page.page(draft.title, result))
    if as_json:
        emit(json.dumps(result, ensure_ascii=False, allow_nan=False))
        return
    _steps(found)
    emit("")
    _futures(found)
    emit("")
    _provisions(found)
    for name, reason in found.left_out:
        emit(f"{name} cannot be: {reason}")
    if any(path.name == paths.BESIDE for path in found.paths):
        emit(
            "beside: tokens of several jobs, one a cluster, each with its part of the batch; none has all accelerators"
        )


def _steps(found: Growth) -> None:
    heads = (
        "path",
        "stage",
        "capital",
        "network bought",
        "stranded",
        "on the books",
        "cables kept/moved/laid",
        "job stops",
        "idle",
    )
    table = Table(heads, range(2, len(heads)), turn=True)
    for path in found.paths:
        for step in path.steps:
            made = step.change
            table.add(
                path.name,
                step.stage,
                numbers.dollars(step.capital_usd),
                numbers.dollars(made.usd(made.bought.values(), network=True)),
                numbers.dollars(step.stranded_usd),
                numbers.dollars(step.written_off_usd),
                f"{made.kept:,}/{made.moved:,}/{made.laid:,}",
                numbers.seconds(step.stopped_s),
                numbers.dollars(step.idle_usd),
            )
    table.print()


def _provisions(found: Growth) -> None:
    heads = ("bought at once, USD a year where wanted", *(stage.name for stage in found.stages), "largest regret")
    table = Table(heads, range(1, len(heads)), turn=True)
    for one in provisions(found.stages):
        costs = [
            f"{numbers.dollars(usd)} (+{numbers.dollars(late)})"
            for usd, late in zip(one.usd_per_year, one.regret_usd, strict=True)
        ]
        table.add(one.built, *costs, numbers.dollars(one.bound_usd))
    table.print()


def _futures(found: Growth) -> None:
    heads = ("$/M tokens where growth ends after", *(stage.name for stage in found.stages), "largest regret")
    table = Table(heads, range(1, len(heads)), turn=True)
    for path in found.paths:
        costs = [f"{numbers.short(usd)} ({late:+.1%})" for usd, late in zip(path.futures, path.regret, strict=True)]
        table.add(path.name, *costs, f"{max(path.regret):.1%}")
    table.print()
