"""Constants of training software from published runs, fitted on the smallest scale of each family alone.

A family of runs is what one source published for one device, one generation of software, and one kind of model (with
or without experts; MLPerf's benchmarks each by itself). Of a family only the runs on the fewest servers are fitted;
larger ones are what the model has to predict. The constants are the same for all software and devices; no source counts
for more than so many runs of one software, so that a sweep of a hundred does not outvote the others.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.calibrate.measurements import Prior, posterior
from railyard.work.training import profiles
from railyard_validation.training.cases import predicted_s

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.work.training.spec import SoftwareProfile
    from railyard_validation.training.cases import Case

    F = NDArray[np.float64]
    Predict = Callable[[Sequence[Case]], list[float]]

# Relative error of a step that measurement and missing detail leave: rows count in units of it.
_ROW_SPREAD = 0.06
# Runs of one source and software that count in full; of more, each counts less.
_MOST_RUNS = 10
_MICRO_BATCH_KNOWN = "Megatron-Bridge"


@dataclass(frozen=True)
class Fit:
    """Fitted constants.

    Attributes:
        values: By name.
        spread: One standard deviation of the logarithm of each.
        without: Values without a part of the rows, by part.
        rows: Ids of the runs that they were fitted on.
        mean_abs_error: Over these rows, in sample.
    """

    values: dict[str, float]
    spread: dict[str, float]
    without: dict[str, dict[str, float]]
    rows: tuple[str, ...]
    mean_abs_error: float


def scored(case: Case) -> bool:
    """Whether a run counts: tier A, and of Megatron-Bridge those of tier B whose micro-batch is known."""
    tier = case.row.get("tier", "A")
    known = _MICRO_BATCH_KNOWN in case.family and "micro_batch" in case.row.integers
    return tier == "A" or (tier == "B" and known)


def smallest_scale(cases: Sequence[Case]) -> list[Case]:
    """The scored runs on the fewest servers of each family."""
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in cases:
        if scored(case):
            groups.setdefault(_group(case), []).append(case)
    return [case for group in groups.values() for case in group if _servers(case) == min(map(_servers, group))]


def _group(case: Case) -> tuple[str, ...]:
    benchmark = case.row.get("model") if case.family.startswith("MLPerf") else ""
    experts = "experts" if case.training.model.experts else "dense"
    device = case.machine.accelerator.name
    return case.family, benchmark, experts, profiles.key_of(case.training.software), device


def _servers(case: Case) -> int:
    return -(-case.row.integers["n_gpu"] // case.row.integers.get("gpus_per_node", 8))


def fit(cases: Sequence[Case], parts: Sequence[str] | None = None, predict: Predict = predicted_s) -> Fit:
    """The constants of all software from runs.

    Args:
        cases: Runs to fit on, as of `smallest_scale`.
        parts: Of each run, such as its source: the fit is done again without each; None: it is not.
        predict: Step seconds of runs; another one than the model's own to see what a part of it is worth.
    """
    constants = profiles.constants()
    prior = Prior(
        at=np.log([constant.prior for constant in constants.values()]),
        width=np.array([constant.spread for constant in constants.values()]),
        low=np.log([constant.low for constant in constants.values()]),
        high=np.log([constant.high for constant in constants.values()]),
    )
    measured = np.log([case.measured for case in cases])

    def misses(logs: F) -> F:
        found: F = np.log(predict(refitted(cases, profiles.assemble(_values(logs))))) - measured
        return found

    groups = ["all"] * len(cases) if parts is None else list(parts)
    found = posterior(misses, prior, _ROW_SPREAD, weight=_weight(cases), groups=groups)
    return Fit(
        values=_values(found.at),
        spread=dict(zip(constants, (round(width, 3) for width in found.width.tolist()), strict=True)),
        without={part: _values(logs) for part, logs in found.without.items()},
        rows=tuple(case.row.id for case in cases),
        mean_abs_error=float(np.mean(np.abs(np.expm1(misses(found.at))))),
    )


def _weight(cases: Sequence[Case]) -> F:
    kinds = [(case.family, profiles.key_of(case.training.software)) for case in cases]
    count = Counter(kinds)
    return np.array([min(1.0, _MOST_RUNS / count[kind]) for kind in kinds])


def _values(logs: F) -> dict[str, float]:
    return {name: _rounded(value) for name, value in zip(profiles.constants(), np.exp(logs).tolist(), strict=True)}


def refitted(cases: Sequence[Case], known: Mapping[str, SoftwareProfile]) -> list[Case]:
    """The same runs under other constants; what a row says of its own software stays.

    Args:
        cases: Runs as read, under the shipped profiles.
        known: Profiles by key.
    """
    shipped = {profiles.key_of(profile): profile for profile in profiles.all_profiles()}
    names = [field.name for field in dataclasses.fields(next(iter(shipped.values())))]
    changed: dict[int, SoftwareProfile] = {}
    for software in {id(case.training.software): case.training.software for case in cases}.values():
        key = profiles.key_of(software)
        own = {
            name: getattr(software, name) for name in names if getattr(software, name) != getattr(shipped[key], name)
        }
        changed[id(software)] = dataclasses.replace(known[key], **own)
    return [
        dataclasses.replace(case, training=case.training.replace(software=changed[id(case.training.software)]))
        for case in cases
    ]


def _rounded(value: float) -> float:
    """Five digits: more than the runs can tell, and enough for slopes."""
    return float(f"{value:.5g}")
