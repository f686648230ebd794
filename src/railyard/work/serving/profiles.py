"""Profiles of serving engines: a constant is what is stated of it, moved by the few effects that rows have told.

    constant = prior * effect(all) * effect(engine) * effect(architecture) * effect(engine, architecture)

Most effects are 1: `data/constants.toml` holds the priors, bounds and spreads with their reasons, effects that are
stated (`stated`) and those that are free (`fitted`), with the cause behind each; `data/fitted.json` what the published
rows made of the free ones.
"""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, did_you_mean
from railyard.work.serving.devices import shipped
from railyard.work.serving.software import CONSTANTS, ServingSoftware

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.catalog import Accelerator
    from railyard.work.serving.devices import Profiles

_DATA = files("railyard.work.serving") / "data"
ENGINES = ("vllm", "sglang", "tensorrt-llm", "deepseek")
LEVEL_SPREAD = 0.4
"""One standard deviation of the logarithm of an effect of an engine or an architecture."""


@dataclass(frozen=True, slots=True)
class ConstantPrior:
    """What a constant is near to, its bounds, how sure that is, and which of its effects are fitted.

    Attributes:
        prior, low, high: In its own unit.
        spread: One standard deviation of the logarithm of the effect of all.
        why: Reason for the prior.
        fitted: Levels whose effects rows tell, see `levels`; a constant without any is as stated.
        stated: Effects of levels that are known beforehand: a mechanism that an engine has there.
    """

    prior: float
    low: float
    high: float
    spread: float
    why: str
    fitted: tuple[str, ...] = ()
    stated: Mapping[str, float] = field(default_factory=dict)

    def at(self, engine: str, architecture: str) -> float:
        """What it is near to for an engine on an architecture, before any row is seen."""
        return self.prior * math.prod(self.stated.get(level, 1.0) for level in levels(engine, architecture))


@cache
def constants() -> dict[str, ConstantPrior]:
    """The constants, by field of `ServingSoftware`."""
    written = tomllib.loads((_DATA / "constants.toml").read_text(encoding="utf-8"))
    return {
        name: ConstantPrior(**{**written[name], "fitted": tuple(written[name].get("fitted", ()))}) for name in CONSTANTS
    }


def free_effects() -> tuple[tuple[str, str], ...]:
    """Constant and level of every effect that is fitted: as many numbers as the published rows have given."""
    return tuple((name, level) for name, known in constants().items() for level in known.fitted)


@cache
def fitted() -> dict[str, Any]:
    """What was fitted: `effects` (logarithms) by level and constant, and `rows` by level."""
    found: dict[str, Any] = json.loads((_DATA / "fitted.json").read_text(encoding="utf-8"))
    return found


def levels(engine: str, architecture: str) -> tuple[str, ...]:
    """The levels that a profile belongs to, widest first."""
    return "all", f"{engine}/", f"/{architecture}", f"{engine}/{architecture}"


def assemble(
    engine: str, architecture: str, effects: Mapping[str, Mapping[str, float]], source: str = ""
) -> ServingSoftware:
    """A profile from effects by level.

    Args:
        engine: Of the profile.
        architecture: Of the device.
        effects: Logarithms by level and constant.
        source: Said in the profile.
    """
    values = {}
    for name, constant in constants().items():
        total = sum(effects.get(level, {}).get(name, 0.0) for level in levels(engine, architecture))
        values[name] = min(max(constant.at(engine, architecture) * math.exp(total), constant.low), constant.high)
    return ServingSoftware(name=engine, architecture=architecture, source=source, **values)


def profile(engine: str, device: Accelerator, *, profiles: Profiles | None = None) -> ServingSoftware:
    """The constants of an engine on a device; where recorded runs gave the device's own, those.

    Args:
        engine: `vllm`, `sglang`, `tensorrt-llm` or `deepseek`.
        device: On which it runs.
        profiles: A user's, in the place of those that ship.

    Raises:
        InputError: No such engine is known.
    """
    known = table_profile(engine, device)
    found = (shipped() | (profiles or {})).get((engine, device.name))
    return known if found is None else found.over(known)


def table_profile(engine: str, device: Accelerator) -> ServingSoftware:
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
    return assemble(engine, device.architecture, fitted()["effects"], fitted()["source"])
