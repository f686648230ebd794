"""Correction from a user's own runs: how much longer ranks are busy than the model says, applied to other jobs.

A run's logarithm of measured over predicted is taken as a sum: what the whole system is off by, what runs of such a
shape and layout are off by, and what is the run's own. The first two are normal, and the covariance of two runs is

    system^2 + alike^2 * exp(-distance^2 / (2 reach^2))

(regression by a Gaussian process: Rasmussen and Williams 2006, chapter 2). The third has Student's t distribution, so
that a run far off the others pulls little; its weight is found by expectation and maximisation (Lange, Little and
Taylor 1989). With no run nothing moves, and with few little: the widths, read off published runs of many systems, say
how much.

A pace multiplies a rank's own work, kernels and the host's part of a layer; what it sends is left to the network model.
The widths in `data/scatter.toml` are read off published runs (`validation/tools/fit_scatter.py`).
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_text
from railyard.work.training import profiles
from railyard.work.training.spec import BITS, OwnRun

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from railyard.model.machine import F
    from railyard.work.training.spec import SoftwareProfile, Training


TAIL = 4.0
"""Degrees of freedom of Student's distribution: one run in twenty lies beyond three of its scales."""
_ROUNDS, _SETTLED = 50, 1e-4


@dataclass(frozen=True, slots=True)
class Scatter:
    """Scatter of one system's runs about a prediction that never saw them; standard deviations of logarithms.

    Attributes:
        alike: Of what runs of one shape and layout share beyond that.
        reach: Distance over which runs are alike.
        run: Scale of what is one run's own: the measurement, and details that nobody wrote down.
    """

    system: float
    alike: float
    reach: float
    run: float

    def covariance(self, one: F, other: F) -> F:
        """Covariance by what runs share, [one, other].

        Args:
            one: Places of runs, [one, trait].
            other: Places of others, [other, trait].
        """
        apart = np.sum((one[:, None, :] - other[None, :, :]) ** 2, axis=2)
        shared: F = self.system**2 + self.alike**2 * np.exp(-apart / (2.0 * self.reach**2))
        return shared


def noise(at: F, off: F, slope: F, scatter: Scatter) -> F:
    """Variance of each run about what it shares with the others, [run]; greater where it lies far off them.

    Args:
        at: Places of runs, [run, trait].
        off: Logarithm by which each is off, [run].
        slope: How much of that quantity shows in what was measured: the run's scale counts over it.
        scatter: How runs scatter.
    """
    shared, scale = scatter.covariance(at, at), (scatter.run / slope) ** 2
    found = scale
    for _ in range(_ROUNDS):
        gain = np.linalg.solve(shared + np.diag(found), shared)
        left = (off - gain.T @ off) ** 2
        spread = np.maximum(np.diag(shared - shared @ gain), 0.0)
        last, found = found, scale * (TAIL + (left + spread) / scale) / (TAIL + 1.0)
        if np.all(np.abs(found - last) < _SETTLED * last):
            break
    return found


def expected(at: F, off: F, spread: F, new: F, scatter: Scatter) -> tuple[F, F]:
    """Expected errors of others, and the variance of what they share, [new].

    Args:
        at: Places of known runs, [run, trait].
        off: Logarithm by which each is off, [run].
        spread: Variance of each, as of `noise`.
        new: Places of others, [new, trait].
        scatter: How runs scatter.
    """
    near = scatter.covariance(new, at)
    inside = scatter.covariance(at, at) + np.diag(spread)
    gain = np.linalg.solve(inside, near.T)
    left = scatter.system**2 + scatter.alike**2 - np.sum(near.T * gain, axis=0)
    return gain.T @ off, np.maximum(left, 0.0)


TRAITS: Mapping[str, float] = {
    "hidden": 1.0,
    "layers": 1.0,
    "seq_len": 1.0,
    "tp": 1.0,
    "pp": 1.0,
    "cp": 1.0,
    "ep": 1.0,
    "vp": 1.0,
    "micro_batch": 1.0,
    "ranks": 0.5,
    "micro_batches": 0.5,
    "bits": 2.0,
    "experts": 3.0,
    "recompute": 2.0,
    "recompute_modules": 1.0,
    "overlap_tensor": 2.0,
    "overlap_expert": 2.0,
    "lora": 3.0,
}
"""Distance between two runs per doubling or, for traits that a run has or has not (0 or 1), for having it.

Set once by judgement, before the widths were fitted: scale alone moves a step little; width of operands, experts and
recomputation choose other kernels.
"""
_MARKS = ("experts", "recompute", "recompute_modules", "overlap_tensor", "overlap_expert", "lora")


@cache
def scatter() -> Scatter:
    """How published runs of one system scatter."""
    text = (files("railyard.work.training") / "data" / "scatter.toml").read_text(encoding="utf-8")
    written = tomllib.loads(text)
    return Scatter(**{name: float(written[name]) for name in ("system", "alike", "reach", "run")})


def traits_of(training: Training) -> tuple[float, ...]:
    """Traits that make runs similar, in the order of `TRAITS`."""
    layout, model = training.layout, training.model
    found = {
        "hidden": model.hidden,
        "layers": model.layers,
        "seq_len": training.seq_len,
        "bits": BITS[training.precision],
        "experts": model.experts > 0,
        "recompute": layout.recompute == "full",
        "recompute_modules": bool(layout.recompute_modules),
        "lora": training.lora is not None,
    }
    return tuple(float(found.get(name, getattr(layout, name, 0))) for name in TRAITS)


def place(traits: tuple[float, ...]) -> F:
    """Coordinates whose distance measures the difference of runs, float64[trait]."""
    return np.array(
        [
            weight * (value if name in _MARKS else math.log2(max(value, 1.0)))
            for (name, weight), value in zip(TRAITS.items(), traits, strict=True)
        ]
    )


@lru_cache(maxsize=64)
def _known(runs: tuple[OwnRun, ...], device: str) -> tuple[F, F, F] | None:
    mine = [run for run in runs if run.device == device]
    if not mine:
        return None
    at = np.stack([place(run.traits) for run in mine])
    return at, np.log([run.pace for run in mine]), np.square([run.spread for run in mine])


def pace_of(training: Training, device: str) -> tuple[float, float]:
    """The pace that own runs on a device predict for a job, and one standard deviation of its logarithm.

    Without own runs on that device: 1, and the uncertainty of an unmeasured system.
    """
    widths = scatter()
    known = _known(training.software.own_runs, device)
    if known is None:
        return 1.0, math.hypot(widths.system, widths.alike)
    mean, variance = expected(*known, place(traits_of(training))[None, :], widths)
    return math.exp(float(mean[0])), math.sqrt(float(variance[0]))


def open_share(training: Training, device: str) -> float | None:
    """Share of an unmeasured system's variance that own runs leave to a job's pace; None without own runs."""
    if not own_count(training, device):
        return None
    widths = scatter()
    return pace_of(training, device)[1] ** 2 / (widths.system**2 + widths.alike**2)


def typical_of_runs(training: Training, device: str) -> tuple[float, float]:
    """The mean pace of own runs on a device, and one standard deviation of the logarithm of one of them."""
    known = _known(training.software.own_runs, device)
    assert known is not None
    mean, variance = expected(*known, known[0], scatter())
    return math.exp(float(np.mean(mean))), math.sqrt(float(np.mean(variance)))


def step_width(training: Training, device: str) -> float:
    """One standard deviation of ln(measured / predicted) of a step with own runs, as if none of it were network."""
    return math.hypot(pace_of(training, device)[1], scatter().run * math.sqrt(TAIL / (TAIL - 2.0)))


def own_count(training: Training, device: str) -> int:
    """Number of own runs on a device that the job's software has."""
    return sum(run.device == device for run in training.software.own_runs)


SECTION = "training"
"""Table of the file that holds them; others are of other kinds of measurements."""

OwnRuns = dict[str, tuple[OwnRun, ...]]
"""Own runs by key of the profile (`megatron-2025/hopper`)."""

_WORDS, _NUMBERS = ("device", "name"), ("pace", "spread")


def read_runs(path: Path) -> OwnRuns:
    """The steps of a file.

    Raises:
        InputError: It cannot be read, has no training runs, or names an unknown profile or trait.
    """
    try:
        content = tomllib.loads(read_text(path))
    except ValueError as error:
        raise InputError(f"the file cannot be read as TOML: {error}", file=path) from error
    section = content.get(SECTION)
    if not isinstance(section, dict) or not section:
        raise InputError(f"the file has no table `{SECTION}`", file=path, found=", ".join(content) or "nothing")
    known = {profiles.key_of(profile) for profile in profiles.all_profiles()}
    found: OwnRuns = {}
    for key, runs in section.items():
        place = f"{SECTION}.{key}"
        if key not in known or not isinstance(runs, list):
            raise InputError(
                f"there is no software profile `{key}`",
                file=path,
                key=place,
                found=key,
                hint=did_you_mean(key, known),
            )
        found[key] = tuple(_run(run, path, f"{place}.{number}") for number, run in enumerate(runs))
    return found


def _run(content: Any, path: Path, key: str) -> OwnRun:
    run = _record(content, (*_WORDS, *_NUMBERS, "traits"), path, key)
    traits = _record(run["traits"], tuple(TRAITS), path, f"{key}.traits")
    for name in _WORDS:
        if not isinstance(run[name], str):
            raise InputError("expected text", file=path, key=f"{key}.{name}", found=run[name])
    pace, spread = (_number(run[name], path, f"{key}.{name}", above=True) for name in _NUMBERS)
    placed = tuple(_number(traits[name], path, f"{key}.traits.{name}", above=False) for name in TRAITS)
    return OwnRun(run["device"], run["name"], pace, spread, placed)


def _record(content: Any, names: tuple[str, ...], path: Path, key: str) -> dict[str, Any]:
    """A table with exactly these keys."""
    if not isinstance(content, dict):
        raise InputError("expected a table", file=path, key=key, found=content)
    for name in content:
        if name not in names:
            hint = did_you_mean(name, names)
            raise InputError(f"there is no `{name}`", file=path, key=key, found=name, allowed=names, hint=hint)
    for name in names:
        if name not in content:
            raise InputError(f"`{name}` is missing", file=path, key=key)
    return content


def _number(value: Any, path: Path, key: str, *, above: bool) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 <= value < float("inf") or (above and value == 0):
        raise InputError(f"expected a number {'above' if above else 'from'} 0", file=path, key=key, found=value)
    return float(value)


def over(software: SoftwareProfile, runs: Mapping[str, tuple[OwnRun, ...]]) -> SoftwareProfile:
    """A profile with a user's own runs; unchanged if there are none."""
    return dataclasses.replace(software, own_runs=runs.get(profiles.key_of(software), ()))


def written(runs: Mapping[str, tuple[OwnRun, ...]], source: str) -> str:
    """The file that `software: {constants: FILE}` takes."""
    lines = [
        f"# Written by `railyard calibrate runs` from {source}: what each step says of its pace, a factor on what a"
    ]
    lines += ["# rank does by itself; spread is one standard deviation of its logarithm, of this run alone."]
    for key, those in runs.items():
        for run in those:
            traits = ", ".join(f"{name} = {value:.15g}" for name, value in zip(TRAITS, run.traits, strict=True))
            lines += ["", f'[[{SECTION}."{key}"]]', f'device = "{run.device}"', f"name = {_quoted(run.name)}"]
            lines += [f"pace = {run.pace:.5g}", f"spread = {run.spread:.4g}", f"traits = {{{traits}}}"]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = "".join(char if char.isprintable() and char not in '"\\' else f"\\U{ord(char):08x}" for char in text)
    return f'"{escaped}"'


def about_runs(training: Training, device: str) -> str:
    """What own runs predict, in words."""
    count = own_count(training, device)
    if not count:
        return f"none of your own runs is of {profiles.key_of(training.software)} on {device}: no pace is used"
    pace, width = pace_of(training, device)
    runs = "your own run" if count == 1 else f"your {count} own runs"
    said = f"by {runs} on {device}, this job's computation takes {pace:.3g} times as long as the shipped constants say"
    return f"{said}, +- {100 * width:.1f} %"
