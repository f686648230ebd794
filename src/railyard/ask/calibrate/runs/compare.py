"""Recorded runs of a serving engine against the simulated one: first token and pace, by distribution over requests."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard.ask.calibrate.runs.read import read_runs
from railyard.ask.calibrate.runs.replay import Setting, distance, replay
from railyard.work.serving.software import shipped
from railyard.work.serving.software import table_profile

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.catalog import Catalog
    from railyard.ask.calibrate.runs.read import RecordedRun
    from railyard.work.serving.software import DeviceProfile, Profiles

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
        measured_s, predicted_s: Seconds at p50, p90 and p99.
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
        id: Its folder.
        status: `ok` or `skipped`.
        reason: Why it was skipped.
        model, device, engine, layout: What ran where.
        requests: How many.
        ttft, tpot: MetricComparison.
        cache_tokens: `predicted` by the memory rule, and `recorded` where the engine's count is known.
        preemptions: In the replay.
        fitted: Constants that this very run gave; none: the run is held out.
        source: Of the constants.
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
    """All runs of a folder."""

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
        folder: With runs (`requests.jsonl` beside `meta.json`).
        catalog: For models and devices.
        profiles: Constants of engines on devices; those that ship when None.

    Raises:
        InputError: There is no run, or a record cannot be read.
    """
    known = shipped() if profiles is None else profiles
    return RunsReport(str(folder), tuple(_result(run, catalog, known) for run in read_runs(folder)))


def _result(run: RecordedRun, catalog: Catalog, profiles: Profiles) -> RunResult:
    try:
        setting = Setting.of(run, catalog)
        measured = profiles.get((ENGINE, setting.device.name))
        software = table_profile(ENGINE, setting.device)
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
    """Of a run's requests and times, to know it again."""
    kept = hashlib.sha256()
    for column in (run.arrival_s, run.ttft_s):
        kept.update(np.round(column * 1e6).astype(np.int64).tobytes())
    for lengths in (run.input_tokens, run.output_tokens):
        kept.update(lengths.astype(np.int64).tobytes())
    return kept.hexdigest()[:16]
