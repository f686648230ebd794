"""How much longer one's own runs keep the ranks busy than the model says, and what that says of another job.

A pace multiplies what a rank does by itself, kernels and the host's part of a layer; what it sends stays the network's.
The widths in `data/scatter.toml` are read off published runs (`validation/tools/fit_scatter.py`).
"""

from __future__ import annotations

import math
import tomllib
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from railyard.model.own_runs import TAIL, Scatter, expected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.model.columns import F
    from railyard.work.training.spec import OwnRun, Training

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
"""How far apart two runs are by one doubling, or, of what a run has or has not (0 or 1), by having it.

Set once by judgement, before the widths were fitted: scale alone moves a step little; width of operands, experts and
recomputation choose other kernels.
"""
_MARKS = ("experts", "recompute", "recompute_modules", "overlap_tensor", "overlap_expert", "lora")
_BITS = {"bf16": 16, "fp16": 16, "fp8": 8, "fp4": 4}


@cache
def scatter() -> Scatter:
    """How published runs of one system scatter."""
    text = (files("railyard.work.training") / "data" / "scatter.toml").read_text(encoding="utf-8")
    written = tomllib.loads(text)
    return Scatter(**{name: float(written[name]) for name in ("system", "alike", "reach", "run")})


def traits_of(training: Training) -> tuple[float, ...]:
    """What makes runs alike, in the order of `TRAITS`."""
    layout, model = training.layout, training.model
    found = {
        "hidden": model.hidden,
        "layers": model.layers,
        "seq_len": training.seq_len,
        "bits": _BITS[training.precision],
        "experts": model.experts > 0,
        "recompute": layout.recompute == "full",
        "recompute_modules": bool(layout.recompute_modules),
        "lora": training.lora is not None,
    }
    return tuple(float(found.get(name, getattr(layout, name, 0))) for name in TRAITS)


def place(traits: tuple[float, ...]) -> F:
    """Coordinates whose distance says how unlike runs are, float64[trait]."""
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
    """The pace that own runs on a device lead to expect of a job, and one standard deviation of its logarithm.

    Without own runs on that device: 1, and what is open of a system that nobody measured.
    """
    widths = scatter()
    known = _known(training.software.own_runs, device)
    if known is None:
        return 1.0, math.hypot(widths.system, widths.alike)
    mean, variance = expected(*known, place(traits_of(training))[None, :], widths)
    return math.exp(float(mean[0])), math.sqrt(float(variance[0]))


def step_width(training: Training, device: str) -> float:
    """One standard deviation of ln(measured / predicted) of a step with own runs, as if none of it were network."""
    return math.hypot(pace_of(training, device)[1], scatter().run * math.sqrt(TAIL / (TAIL - 2.0)))


def own_count(training: Training, device: str) -> int:
    """How many own runs on a device the job's software knows."""
    return sum(run.device == device for run in training.software.own_runs)
