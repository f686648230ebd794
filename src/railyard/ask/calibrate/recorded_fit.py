"""Constants of an engine on one device, from recorded runs of it: as few runs for as many constants as can be.

Runs are taken in the order of how many constants they tell of, a model without experts on one rank first; each frees
only those that no earlier run depended on. So the first run of a device gives the constants of kernels and host, a run
with tensor parallelism only those of its collectives, one with experts only those of experts; what such a run shows
about the others stays a prediction. Each step minimises

    sum over metrics of (mean square gap of the distribution functions + 0.02 * mean square log error by request)
        + 1e-4 * sum over constants of (log(constant / table's) / spread)^2

by Nelder and Mead's simplex (1965): a replay has steps, so slopes say little.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.calibrate.recorded import ReplaySetting, distance, distribution_gaps, read_runs, replay
from railyard.kit.errors import InputError
from railyard.work.serving.software import DeviceProfile, ProfiledRun, constants, profile, shipped, table_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.ask.calibrate.recorded import RecordedRun
    from railyard.catalog import Catalog
    from railyard.work.serving.software import Profiles, ServingSoftware

    F = NDArray[np.float64]


ENGINE = "vllm"
WITHIN = 0.1
"""The distance that is asked for."""
_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True)
class MetricComparison:
    """One metric of one run.

    Attributes:
        distance: Kolmogorov and Smirnov's, of the two distributions over requests.
        median_request_error: Median over requests of |predicted - measured| / measured.
        measured_sorted_s, predicted_sorted_s: Of every request, ascending: the distributions themselves.
    """

    distance: float
    median_request_error: float
    measured_s: dict[str, float]
    predicted_s: dict[str, float]
    measured_sorted_s: tuple[float, ...] = field(repr=False)
    predicted_sorted_s: tuple[float, ...] = field(repr=False)

    @classmethod
    def of(cls, measured: F, predicted: F) -> MetricComparison:
        """Compares seconds by request, those that are numbers on both sides."""
        good = np.isfinite(measured) & np.isfinite(predicted)
        one, other = measured[good], predicted[good]
        return cls(
            distance=distance(one, other),
            median_request_error=float(np.median(np.abs(other / one - 1.0))),
            measured_s={name: float(np.quantile(one, share)) for name, share in _SHARES.items()},
            predicted_s={name: float(np.quantile(other, share)) for name, share in _SHARES.items()},
            measured_sorted_s=tuple(np.sort(one).tolist()),
            predicted_sorted_s=tuple(np.sort(other).tolist()),
        )


@dataclass(frozen=True)
class RunResult:
    """One run.

    Attributes:
        status: `ok` or `skipped`.
        cache_tokens: `predicted` by the memory rule, and `recorded` where the engine's count is known.
        fitted: Constants fitted to this run; empty for a run of the test set.
    """

    id: str
    status: str
    reason: str = ""
    model: str = ""
    device: str = ""
    engine: str = ""
    layout: str = ""
    requests: int = 0
    ttft: MetricComparison | None = None
    tpot: MetricComparison | None = None
    cache_tokens: dict[str, int] = field(default_factory=dict)
    preemptions: int = 0
    fitted: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True)
class RunsReport:
    """Runs of a folder."""

    folder: str
    rows: tuple[RunResult, ...]

    def summary(self) -> dict[str, float | int | None]:
        """Runs and their distances: of all, and of those that gave no constant."""
        done = [row for row in self.rows if row.status == "ok"]
        held_out = [row for row in done if not row.fitted]
        found: dict[str, float | int | None] = {
            "n": len(done),
            "skipped": len(self.rows) - len(done),
            "coverage": len(done) / len(self.rows),
            "held_out": len(held_out),
        }
        for name in ("ttft", "tpot"):
            each = [one.distance for row in done if (one := getattr(row, name)) is not None]
            found[f"{name}_within"] = sum(value <= WITHIN for value in each)
            found[f"{name}_median_distance"] = float(np.median(each)) if each else None
            found[f"{name}_worst_distance"] = max(each) if each else None
        return found

    def to_json(self) -> str:
        """The report as JSON: `runs`, `rows`, `summary`, `within`."""
        content = {
            "runs": self.folder,
            "rows": [{**asdict(row), "fitted": list(row.fitted)} for row in self.rows],
            "summary": self.summary(),
            "within": WITHIN,
        }
        return json.dumps(content, indent=1, allow_nan=False)


def validate_runs(folder: Path, catalog: Catalog, *, profiles: Profiles | None = None) -> RunsReport:
    """Serves every recorded run below a folder again.

    Args:
        folder: With runs (`requests.jsonl` and `meta.json`).
        catalog: For models and devices.
        profiles: Constants of engines on devices; those that ship when None.

    Raises:
        InputError: There is no run, or a record cannot be read.
    """
    known = shipped() if profiles is None else profiles
    return RunsReport(str(folder), tuple(_result(run, catalog, known) for run in read_runs(folder)))


def _result(run: RecordedRun, catalog: Catalog, profiles: Profiles) -> RunResult:
    try:
        setting = ReplaySetting.of(run, catalog)
        measured = profiles.get((ENGINE, setting.device.name))
        software = table_profile(ENGINE, setting.device.architecture)
        found = replay(setting, software if measured is None else measured.over(software))
    except InputError as error:
        return RunResult(run.name, "skipped", str(error).splitlines()[0], run.model, run.device, run.engine)
    cache = {"predicted": setting.cache_tokens()}
    if run.blocks:
        cache["recorded"] = run.blocks * run.block_tokens * setting.copies
    return RunResult(
        id=run.name,
        status="ok",
        model=setting.model.name,
        device=setting.device.name,
        engine=run.engine,
        layout=f"tp {run.tp}" + (f" dp {run.dp}" if run.dp > 1 else "") + (" ep" if setting.layout.ep > 1 else ""),
        requests=len(run.arrival_s),
        ttft=MetricComparison.of(run.ttft_s, found.ttft_s),
        tpot=MetricComparison.of(run.tpot_s, found.tpot_s),
        cache_tokens=cache,
        preemptions=found.preemptions,
        fitted=given_by(run, measured),
        source="published tables" if measured is None else measured.source,
    )


def given_by(run: RecordedRun, profile: DeviceProfile | None) -> tuple[str, ...]:
    """The constants of a profile that a run gave; none when it is not behind it."""
    mark = digest(run)
    return next((source.given for source in profile.runs if source.digest == mark), ()) if profile else ()


def digest(run: RecordedRun) -> str:
    """Digest of a run's requests and times, which identifies it."""
    kept = hashlib.sha256()
    for column in (run.arrival_s, run.ttft_s):
        kept.update(np.round(column * 1e6).astype(np.int64).tobytes())
    for lengths in (run.input_tokens, run.output_tokens):
        kept.update(lengths.astype(np.int64).tobytes())
    return kept.hexdigest()[:16]


_ALL = (
    "weights_fraction",
    "gemm_fraction",
    "kv_fraction",
    "attention_fraction",
    "pass_bytes",
    "layer_s",
    "host_s",
    "host_per_sequence_s",
)
_TENSOR = ("reduce_s", "reduce_fraction")
_EXPERTS = ("expert_fraction", "grouped_fraction", "moe_layer_s")
_COPIES = ("exchange_s", "exchange_fraction")
_LOG_WEIGHT, _PRIOR_WEIGHT = 0.02, 1e-4
# Of links and of experts' kernels on cards that no published row tells of, the table's constants and bounds say little.
_WIDER = 3.0
# Simplex: evaluations, and the relative change of the sum at which it ends.
_MOST, _SMALL = 700, 1e-4
# Set up anew so many times at most, and on while the sum becomes less than so much of what it was.
_TURNS, _HELPS = 6, 0.98


@dataclass(frozen=True)
class FitRun:
    """One run of a fit."""

    setting: ReplaySetting
    given: tuple[str, ...]
    software: ServingSoftware


def tells(setting: ReplaySetting) -> tuple[str, ...]:
    """The constants that a run depends on."""
    layout = setting.layout
    found: tuple[str, ...] = _ALL
    if layout.tp > 1:
        found += _TENSOR
    if setting.model.experts > 0:
        found += _EXPERTS
    return found + _COPIES if layout.dp_attention > 1 else found


def fit(settings: Sequence[ReplaySetting], start: ServingSoftware, near: ServingSoftware) -> list[FitRun]:
    """Constants of one engine on one device from all its runs.

    Args:
        settings: Runs of that device.
        start: The tables' constants, which the fit stays close to, and which constants that no run depends on keep.
        near: Others at which the search may begin, where they fit better.
    """
    known: set[str] = set()
    steps: list[FitRun] = []
    software = start
    for setting in sorted(settings, key=lambda one: (len(tells(one)), one.layout.ranks, one.run.name)):
        free = tuple(name for name in tells(setting) if name not in known)
        if free:
            software = _one(setting, software, free, near)
        known |= set(free)
        steps.append(FitRun(setting, free, software))
    return steps


def _one(
    setting: ReplaySetting, start: ServingSoftware, free: tuple[str, ...], near: ServingSoftware
) -> ServingSoftware:
    spread = np.array([constants()[name].spread * (1.0 if name in _ALL else _WIDER) for name in free])

    def made(place: F) -> ServingSoftware:
        moved: dict[str, Any] = {}
        for name, step in zip(free, place * spread, strict=True):
            wider = 1.0 if name in _ALL else _WIDER
            value, known = getattr(start, name) * float(np.exp(step)), constants()[name]
            # WHY rounded here: a replay has steps, and what is written must be what was found.
            moved[name] = float(f"{min(max(value, known.low / wider), known.high * wider):.4g}")
        return replace(start, **moved)

    def miss(place: F) -> float:
        return misfit(setting, made(place)) + _PRIOR_WEIGHT * float(np.sum(place**2))

    shipped = np.log([getattr(near, name) / getattr(start, name) for name in free]) / spread
    return made(simplex(miss, min(np.zeros(len(free)), shipped, key=miss), 0.7))


def profiles_of(runs: Sequence[RecordedRun], catalog: Catalog, source: str) -> tuple[Profiles, list[FitRun]]:
    """The profile of every device that runs were recorded on.

    Raises:
        InputError: The catalogue does not know a model or a device, or it does not fit.
    """
    by_device: dict[str, list[ReplaySetting]] = {}
    for run in runs:
        setting = ReplaySetting.of(run, catalog)
        by_device.setdefault(setting.device.name, []).append(setting)
    found: Profiles = {}
    done: list[FitRun] = []
    for device, settings in by_device.items():
        card = settings[0].device
        steps = fit(settings, table_profile(ENGINE, card.architecture), profile(ENGINE, card))
        last, given = steps[-1].software, [name for step in steps for name in step.given]
        sources = tuple(ProfiledRun(step.setting.run.name, digest(step.setting.run), step.given) for step in steps)
        constants = {name: getattr(last, name) for name in given}
        found[ENGINE, device] = DeviceProfile(ENGINE, device, source, constants, sources)
        done += steps
    return found, done


def misfit(setting: ReplaySetting, software: ServingSoftware) -> float:
    """Distance of a replay's distributions (Cramer and von Mises), and of its requests, from the run's."""
    found, run = replay(setting, software), setting.run
    return sum(
        float(np.mean(distribution_gaps(predicted, measured) ** 2))
        + _LOG_WEIGHT * float(np.nanmean(np.log(predicted / measured) ** 2))
        for predicted, measured in ((found.ttft_s, run.ttft_s), (found.tpot_s, run.tpot_s))
    )


def simplex(miss: Callable[[F], float], start: F, step: float) -> F:
    """The least value that Nelder and Mead's simplex finds: from both sides of `start`, and on from the better end.

    A simplex that has collapsed stops short of the bottom, so it is set up again from alternating sides.
    """
    best = min((_descend(miss, start, side) for side in (step, -step)), key=miss)
    for turn in range(_TURNS):
        found = _descend(miss, best, step / 2.0 if turn % 2 == 0 else -step / 2.0)
        helped = miss(found) < _HELPS * miss(best)
        best = min(best, found, key=miss)
        if not helped and turn > 0:
            break
    return best


def _descend(miss: Callable[[F], float], start: F, step: float) -> F:
    corners = np.vstack([start, start + step * np.eye(len(start))])
    values = np.array([miss(corner) for corner in corners])
    for _ in range(_MOST):
        order = np.argsort(values, kind="stable")
        corners, values = corners[order], values[order]
        if values[-1] - values[0] <= _SMALL * values[0]:
            break
        middle = corners[:-1].mean(axis=0)
        across = middle + (middle - corners[-1])
        value = miss(across)
        if value < values[0]:
            further = middle + 2.0 * (middle - corners[-1])
            farther = miss(further)
            across, value = (further, farther) if farther < value else (across, value)
        elif value >= values[-2]:
            nearer = middle + 0.5 * ((across if value < values[-1] else corners[-1]) - middle)
            near = miss(nearer)
            if near >= min(value, values[-1]):
                corners[1:] = corners[0] + 0.5 * (corners[1:] - corners[0])
                values[1:] = [miss(corner) for corner in corners[1:]]
                continue
            across, value = nearer, near
        corners[-1], values[-1] = across, value
    best: F = corners[np.argmin(values)]
    return best
