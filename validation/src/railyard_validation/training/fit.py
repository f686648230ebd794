"""Constants of software profiles from published runs, fitted on the smallest scale of each family alone.

A family of runs is what one source published for one device, one generation of software, and one kind of model (with
or without experts; MLPerf's benchmarks each by itself). Of a family only the runs on the fewest servers are fitted;
larger ones are what the model has to predict. The constants of a profile minimise

    sum_rows huber(log(predicted / measured) / 0.04) + sum_constants (log(constant / prior) / spread)^2

where the prior is the fitted value of the profile that it is based on, so that a generation with few runs stays near
the one before it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.workload.training import profiles
from railyard.workload.training.profiles import integral
from railyard_validation import robust
from railyard_validation.training.cases import predicted_s

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.workload.training.spec import SoftwareProfile
    from railyard_validation.training.cases import Case

    Logs = NDArray[np.float64]
    Misses = Callable[[Logs], Logs]
    Predict = Callable[[Sequence[Case]], list[float]]

# Relative error of a step that measurement and missing detail leave: rows count in units of it.
_ROW_SPREAD = 0.04
# Rows further off than this many spreads count linearly, not squared.
_HUBER = 2.0
_ITERATIONS = 30
_PRECISION = 1e-6
_STEP = 1e-3
_MICRO_BATCH_KNOWN = "Megatron-Bridge"


@dataclass(frozen=True)
class Fit:
    """Fitted constants of one profile.

    Attributes:
        values: By field of the profile.
        rows: Ids of the runs that they were fitted on.
        mean_abs_error: Over these rows, in sample.
    """

    values: dict[str, float]
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


def fit(
    cases: Sequence[Case], predict: Predict = predicted_s, before: Mapping[str, Fit] | None = None
) -> dict[str, Fit]:
    """Constants of every profile that has runs among `cases`, bases first.

    Args:
        cases: Runs to fit on, as of `smallest_scale`.
        predict: Step seconds of runs; another one than the model's own to see what a part of it is worth.
        before: An earlier fit by the same prediction: profiles whose runs and bases have not changed keep its values.
    """
    found: dict[str, Fit] = {}
    moved: set[str] = set()
    for record in profiles.records():
        own = [case for case in cases if profiles.key_of(case.training.software) == record.key]
        last = (before or {}).get(record.key)
        same = last is not None and last.rows == tuple(case.row.id for case in own)
        if record.base not in moved and last is not None and same:
            found[record.key] = last
            continue
        if record.base in moved or last is not None or own:
            moved.add(record.key)
        if not own or not record.free:
            continue
        known = profiles.assemble({key: done.values for key, done in found.items()})
        found[record.key] = _fit_one(own, known, record, predict)
    return found


def refitted(cases: Sequence[Case], known: Mapping[str, SoftwareProfile]) -> list[Case]:
    """The same runs under other constants; what a row says of its own software stays.

    Args:
        cases: Runs as read, under the shipped profiles.
        known: Profiles by key.
    """
    shipped = {profiles.key_of(profile): profile for profile in profiles.all_profiles()}
    names = [field.name for field in dataclasses.fields(next(iter(shipped.values())))]
    changed = []
    for case in cases:
        software = case.training.software
        key = profiles.key_of(software)
        own = {
            name: getattr(software, name) for name in names if getattr(software, name) != getattr(shipped[key], name)
        }
        training = case.training.replace(software=dataclasses.replace(known[key], **own))
        changed.append(dataclasses.replace(case, training=training))
    return changed


def _fit_one(
    cases: list[Case], known: Mapping[str, SoftwareProfile], record: profiles.ProfileRecord, predict: Predict
) -> Fit:
    """Constants of dense layers on runs without experts first; then those of expert layers on the others.

    An expert layer's own uncertainty would otherwise bend the rate of every matrix product.
    """
    bounds = profiles.constants()
    values: dict[str, float] = {}
    for experts in (False, True):
        free = [name for name in record.free if bounds[name].experts == experts]
        runs = [case for case in cases if bool(case.training.model.experts) == experts]
        if free and runs:
            start = dataclasses.replace(known[record.key], **integral(values))
            values |= _fit_some(runs, {**known, record.key: start}, record.key, free, predict)
    done = {**known, record.key: dataclasses.replace(known[record.key], **integral(values))}
    reached = zip(predict(refitted(cases, done)), cases, strict=True)
    error = float(np.mean([abs(predicted / case.measured - 1.0) for predicted, case in reached]))
    return Fit(values, tuple(case.row.id for case in cases), error)


def _fit_some(
    cases: list[Case], known: Mapping[str, SoftwareProfile], key: str, free: Sequence[str], predict: Predict
) -> dict[str, float]:
    bounds, start = profiles.constants(), known[key]
    low, high = (np.log([getattr(bounds[name], side) for name in free]) for side in ("low", "high"))
    spread = np.array([bounds[name].spread for name in free])
    prior = np.clip(np.log([max(float(getattr(start, name)), 1e-12) for name in free]), low, high)
    measured = np.log([case.measured for case in cases])

    def misses(logs: Logs) -> Logs:
        values = integral(dict(zip(free, np.exp(logs).tolist(), strict=True)))
        tried = refitted(cases, {**known, key: dataclasses.replace(start, **values)})
        return np.log(predict(tried)) - measured

    logs = robust.minimise(
        misses,
        lambda logs: _slopes(misses, logs),
        robust.Priors(prior, spread, low, high),
        robust.Rows(_ROW_SPREAD, _HUBER),
        iterations=_ITERATIONS,
        precision=_PRECISION,
    )
    return {name: _rounded(value) for name, value in zip(free, np.exp(logs).tolist(), strict=True)}


def _slopes(misses: Misses, logs: Logs) -> Logs:
    """Derivatives of the misses, [run, constant], by steps that are greater than what rounding in the model hides."""
    at = misses(logs)
    return np.stack([(misses(logs + _STEP * unit) - at) / _STEP for unit in np.eye(len(logs))], axis=1)


def _rounded(value: float) -> float:
    """Three digits: more than the runs can tell."""
    return float(f"{value:.3g}")
