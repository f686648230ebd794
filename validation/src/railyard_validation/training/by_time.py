"""Runs forecast from what was published before them: constants and software of an earlier date, as for a new system.

Leaving out one source while its relatives stay in the fit does not show the error on what comes next. So time is cut at
half years: the constants are fitted on what was published before the cut, and what came in the half year behind it is
forecast. A run whose software was not yet read takes the newest of its kind that was (`megatron-2025` for
`megatron-2026`), as a user does with the next release. The mechanisms themselves were written with all runs known: no
split of the data takes that back.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.work.training import profiles
from railyard_validation.training.cases import predicted_s
from railyard_validation.training.fit import fit, refitted, smallest_scale

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from railyard.work.training.spec import SoftwareProfile
    from railyard_validation.training.cases import Case

CUTS = ("2023-07", "2024-01", "2024-07", "2025-01", "2025-07", "2026-01", "2026-07")
"""Half years; before the first only three papers and two generations of software were published."""


@dataclass(frozen=True)
class Forecast:
    """One run forecast from what was known before.

    Attributes:
        case: The run.
        cut: Month from which on nothing was known.
        predicted: Step seconds.
    """

    case: Case
    cut: str
    predicted: float


def published(case: Case) -> str:
    """Year and month in which a run was published, `2025-06`; "" where the table does not say."""
    return case.row.get("published")


def forecasts(cases: Sequence[Case], *, named: bool) -> list[Forecast]:
    """Every run behind the first cut, under the constants of its cut.

    Args:
        cases: Runs with the month of their publication, under the shipped profiles.
        named: Runs say what software they ran, and those of a kind that nobody had read are left out; else each takes
            the software that was the default of its device.
    """
    return [one for cut in CUTS for one in forecasts_behind(cut, cases, named=named)]


def forecasts_behind(cut: str, cases: Sequence[Case], *, named: bool) -> list[Forecast]:
    """Every run of the half year behind one of `CUTS`, by what was known before it."""
    end = dict(itertools.pairwise([*CUTS, "9999-99"]))[cut]
    new = [case for case in cases if cut <= published(case) < end]
    if not new:
        return []
    before = [case for case in cases if published(case) < cut]
    values = fit(smallest_scale(before)).values
    known = {key: one for key, one in profiles.assemble(values).items() if one.date < cut}
    then = list(_as_of(new, known, named=named))
    return [Forecast(one, cut, step_s) for one, step_s in zip(then, predicted_s(then), strict=True)]


def _as_of(cases: Sequence[Case], known: Mapping[str, SoftwareProfile], *, named: bool) -> Iterator[Case]:
    """The same runs under the software that was known."""
    for case in cases:
        own = profiles.key_of(case.training.software)
        taken = _nearest(case, known) if named else _newest(case, known, "megatron")
        if taken is not None:
            yield refitted([case], {own: taken})[0]


def _nearest(case: Case, known: Mapping[str, SoftwareProfile]) -> SoftwareProfile | None:
    """A run's own software, else the newest of its kind on its architecture, None of a kind that was not read."""
    own = case.training.software
    return known.get(profiles.key_of(own)) or _newest(case, known, own.name.partition("-20")[0])


def _newest(case: Case, known: Mapping[str, SoftwareProfile], kind: str) -> SoftwareProfile | None:
    device = case.machine.accelerator
    same = [one for one in known.values() if one.name.partition("-20")[0] == kind]
    read = [one for one in same if profiles.read_on(one, device)]
    return max(read or same, key=lambda one: one.date, default=None)
