"""Runs predicted with constants that were fitted without them: one source, model or hidden size left out at a time."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, did_you_mean
from railyard.work.training import profiles
from railyard_validation.training.cases import read_cases
from railyard_validation.training.fit import fit, refitted, smallest_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.catalog import Catalog
    from railyard_validation.training.cases import Case, Refused

PUBLISHED = Path(__file__).parents[3] / "data/training/runs.csv"
"""The runs that constants are fitted on."""


def _source(case: Case) -> str:
    return case.family


def _model(case: Case) -> str:
    return f"{case.family}, {case.row.get('model')}"


def _hidden(case: Case) -> str:
    return f"{case.family}, hidden size {case.training.model.hidden}"


PARTS: dict[str, Callable[[Case], str]] = {"source": _source, "model": _model, "hidden": _hidden}


def check(by: str) -> None:
    """Whether runs can be parted by that.

    Raises:
        InputError: They cannot.
    """
    if by not in PARTS:
        raise InputError(
            f"runs cannot be left out by `{by}`",
            key="leave-out",
            found=by,
            allowed=tuple(PARTS),
            hint=did_you_mean(by, tuple(PARTS)),
        )


@lru_cache(maxsize=1)
def published(catalog: Catalog) -> tuple[list[Case], list[Refused]]:
    """The published runs, and the rows that cannot be predicted; nobody may change them."""
    return read_cases(PUBLISHED, catalog)


def left_out(cases: Sequence[Case], by: str, catalog: Catalog) -> tuple[list[Case], list[str]]:
    """Every run under constants that were fitted without the part that it belongs to.

    The fit sees the smallest scale of each family of the published runs, less the part; runs of a source that is not
    among them stand under the constants of all.

    Args:
        cases: Runs as read.
        by: A key of `PARTS`: `source`, `model` (of one source) or `hidden` (hidden size within one source).
        catalog: For the published runs.

    Returns:
        The runs, in the order of `cases`, and the part that each belongs to.

    Raises:
        InputError: Runs cannot be parted by that.
    """
    check(by)
    small = smallest_scale(published(catalog)[0])
    found = fit(small, [PARTS[by](case) for case in small])
    everything = profiles.assemble(found.values)
    without = {part: profiles.assemble(values) for part, values in found.without.items()}
    names = [PARTS[by](case) for case in cases]
    changed: dict[int, Case] = {}
    for name in dict.fromkeys(names):
        places = [place for place, part in enumerate(names) if part == name]
        known = without.get(name, everything)
        changed |= dict(zip(places, refitted([cases[place] for place in places], known), strict=True))
    return [changed[place] for place in range(len(cases))], names
