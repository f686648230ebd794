"""Profiles of serving engines: constants of all, of an engine, of an architecture, of both, of a year of both.

A constant of one profile is the product of the prior and the effects of the levels that it belongs to:

    constant = prior * effect(all) * effect(engine) * effect(architecture) * effect(engine, architecture) * effect(year)

so that an engine on a new architecture starts from what is known of either. `data/constants.toml` holds the priors,
bounds and spreads with their reasons, `data/fitted.json` the effects and how many published rows gave them.
"""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError, did_you_mean
from railyard.workload.serving.devices import shipped
from railyard.workload.serving.software import CONSTANTS, ServingSoftware

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.catalog import Accelerator
    from railyard.workload.serving.devices import Profiles

_DATA = files("railyard.workload.serving") / "data"
ENGINES = ("vllm", "sglang", "tensorrt-llm", "deepseek")
_NEWEST = "2026"


@dataclass(frozen=True, slots=True)
class ConstantPrior:
    """What a constant is near to, its bounds, the spread of its logarithm over all, and over each level below.

    Attributes:
        prior, low, high: In its own unit.
        spread: One standard deviation of the logarithm of the effect of all.
        level: The same for each further level.
        why: Reason for the prior.
    """

    prior: float
    low: float
    high: float
    spread: float
    level: float
    why: str


@cache
def constants() -> dict[str, ConstantPrior]:
    """The constants, by field of `ServingSoftware`."""
    written = tomllib.loads((_DATA / "constants.toml").read_text(encoding="utf-8"))
    return {name: ConstantPrior(**written[name]) for name in CONSTANTS}


@cache
def fitted() -> dict[str, Any]:
    """What was fitted: `effects` (logarithms) by level and constant, and `rows` by level."""
    found: dict[str, Any] = json.loads((_DATA / "fitted.json").read_text(encoding="utf-8"))
    return found


def levels(engine: str, architecture: str, year: str) -> tuple[str, ...]:
    """The levels that a profile belongs to, widest first."""
    both = f"{engine}/{architecture}"
    return "all", f"{engine}/", f"/{architecture}", both, f"{both}/{year}"


def assemble(
    engine: str, architecture: str, year: str, effects: Mapping[str, Mapping[str, float]], source: str = ""
) -> ServingSoftware:
    """A profile from effects by level.

    Args:
        engine: Of the profile.
        architecture: Of the device.
        year: Of the engine's version.
        effects: Logarithms by level and constant.
        source: Said in the profile.
    """
    values = {}
    for name, constant in constants().items():
        total = sum(effects.get(level, {}).get(name, 0.0) for level in levels(engine, architecture, year))
        values[name] = min(max(constant.prior * math.exp(total), constant.low), constant.high)
    return ServingSoftware(name=engine, architecture=architecture, date=year, source=source, **values)


def profile(
    engine: str, device: Accelerator, year: str = _NEWEST, *, profiles: Profiles | None = None
) -> ServingSoftware:
    """The constants of an engine of that year on a device; where recorded runs gave the device's own, those.

    Args:
        engine: `vllm`, `sglang`, `tensorrt-llm` or `deepseek`.
        device: On which it runs.
        year: Of the engine's version; the newest that was read when left out.
        profiles: A user's, in the place of those that ship.

    Raises:
        InputError: No such engine is known.
    """
    known = table_profile(engine, device, year)
    found = (shipped() | (profiles or {})).get((engine, device.name))
    return known if found is None else found.over(known)


def table_profile(engine: str, device: Accelerator, year: str = _NEWEST) -> ServingSoftware:
    """The same from the published tables alone.

    Raises:
        InputError: No such engine is known.
    """
    if engine not in ENGINES:
        raise InputError(
            f"there is no serving engine `{engine}`",
            key="software",
            found=engine,
            allowed=ENGINES,
            hint=did_you_mean(engine, ENGINES),
        )
    return assemble(engine, device.architecture, year, fitted()["effects"], fitted()["source"])
