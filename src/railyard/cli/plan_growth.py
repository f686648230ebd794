"""`railyard plan growth`: paths from a cluster to larger ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from railyard.api import numbers
from railyard.cli.tables import Table, emit
from railyard.plan.growth import paths
from railyard.scenario import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.plan.growth.paths import Growth


def growth(file: Path, *, sets: Sequence[str], as_json: bool) -> None:
    """Prints what paths of growth cost, and what each regrets where growth ends early.

    Raises:
        InputError: The plan is wrong.
    """
    found = paths.growth(load.load(file, sets))
    if as_json:
        emit(json.dumps(paths.to_json(found), ensure_ascii=False, allow_nan=False))
        return
    _steps(found)
    emit("")
    _futures(found)


def _steps(found: Growth) -> None:
    heads = ("path", "stage", "capital", "network bought", "stranded", "cables kept/moved/laid", "job stops", "idle")
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
                f"{made.kept:,}/{made.moved:,}/{made.laid:,}",
                numbers.seconds(step.stopped_s),
                numbers.dollars(step.idle_usd),
            )
    table.print()


def _futures(found: Growth) -> None:
    heads = ("$/M tokens where growth ends after", *(stage.name for stage in found.stages), "largest regret")
    table = Table(heads, range(1, len(heads)), turn=True)
    for path in found.paths:
        costs = [f"{numbers.short(usd)} ({late:+.1%})" for usd, late in zip(path.futures, path.regret, strict=True)]
        table.add(path.name, *costs, f"{max(path.regret):.1%}")
    table.print()
