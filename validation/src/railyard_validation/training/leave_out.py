"""Runs predicted with constants that were fitted without them: one source, or one hidden size, left out at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.errors import InputError, did_you_mean
from railyard.workload.training import profiles
from railyard_validation.training.fit import fit, refitted, smallest_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard_validation.training.cases import Case


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


def left_out(cases: Sequence[Case], by: str) -> tuple[list[Case], list[str]]:
    """Every run under constants that were fitted without the part that it belongs to.

    The fit sees the smallest scale of each family among `cases`, less the part. A profile that has no runs left keeps
    the constants of the profile that it is based on, or the priors.

    Args:
        cases: Runs as read.
        by: A key of `PARTS`: `source`, `model` (of one source) or `hidden` (hidden size within one source).

    Returns:
        The runs, in the order of `cases`, and the part that each belongs to.

    Raises:
        InputError: Runs cannot be parted by that.
    """
    check(by)
    names = [PARTS[by](case) for case in cases]
    small = smallest_scale(cases)
    fitted = fit(small)
    whole = profiles.assemble({key: done.values for key, done in fitted.items()})
    changed: dict[int, Case] = {}
    for name in dict.fromkeys(names):
        held = [place for place, part in enumerate(names) if part == name]
        rest = [case for case in small if PARTS[by](case) != name]
        known = whole
        if len(rest) < len(small):
            known = profiles.assemble({key: done.values for key, done in fit(rest, before=fitted).items()})
        changed |= dict(zip(held, refitted([cases[place] for place in held], known), strict=True))
    return [changed[place] for place in range(len(cases))], names
