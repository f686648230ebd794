"""Dated constants of training software, one set per (software generation, device architecture or device).

A profile says how near to the device's own best kernels a software came, what it fuses, what its host costs, and what
it can hide. The records are data: `data/profiles.toml` holds the stated facts and what each fitted constant is held
near to, `data/fitted.json` the fitted values with the published runs that gave them.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError, did_you_mean
from railyard.workload.training.spec import SoftwareProfile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.catalog import Accelerator

_DATA = files("railyard.workload.training") / "data"
_TIMES = "_ps"
_UNMEASURED = "unmeasured-2026"


@dataclass(frozen=True, slots=True)
class ConstantRange:
    """How a fitted constant may vary.

    Attributes:
        prior: What it is near to in a profile that has no base.
        low, high: Bounds.
        spread: One standard deviation of its natural logarithm about what it is near to.
        why: Reason for the prior.
        experts: Whether it is a constant of expert layers, which only runs with experts can tell.
    """

    prior: float
    low: float
    high: float
    spread: float
    why: str
    experts: bool = False


@dataclass(frozen=True, slots=True)
class ProfileRecord:
    """A profile as it is written down, before bases and fits are put together.

    Attributes:
        key: `name/architecture`, or the name alone.
        base: Key of the profile that holds where this one says nothing, or "".
        stated: Facts.
        prior: What free constants are held near to, where that is not the base's value.
        free: Constants that are fitted.
        about: `name`, `architecture`, `date`, `source`.
    """

    key: str
    base: str
    stated: Mapping[str, Any]
    prior: Mapping[str, float]
    free: tuple[str, ...]
    about: Mapping[str, str]


@cache
def records() -> tuple[ProfileRecord, ...]:
    """All profiles as written, each after its base."""
    settled: dict[str, frozenset[str]] = {"": frozenset()}
    found = []
    for written in _written()["profile"]:
        record = _record(written, settled[written.get("base", "")])
        settled[record.key] = settled[record.base] | {*record.stated, *record.prior, *record.free}
        found.append(record)
    return tuple(found)


@cache
def constants() -> dict[str, ConstantRange]:
    """The constants that can be fitted, by field of `SoftwareProfile`."""
    return {name: ConstantRange(**bounds) for name, bounds in _written()["constant"].items()}


@cache
def fitted() -> dict[str, dict[str, Any]]:
    """What was fitted, by key: `values`, the `rows` that gave them, and the mean |error| over these."""
    found: dict[str, dict[str, Any]] = json.loads((_DATA / "fitted.json").read_text(encoding="utf-8"))
    return found


def assemble(values: Mapping[str, Mapping[str, float]]) -> dict[str, SoftwareProfile]:
    """Every profile by its key: base, then stated facts, then priors, then fitted values.

    Args:
        values: Fitted constants by key of the profile; a free constant without one keeps its prior.
    """
    found: dict[str, SoftwareProfile] = {}
    for record in records():
        base = found[record.base] if record.base else SoftwareProfile(name="")
        plain = {field.name: getattr(base, field.name) for field in fields(SoftwareProfile)}
        numbers = {**record.prior, **values.get(record.key, {})}
        found[record.key] = SoftwareProfile(**{**plain, **record.stated, **integral(numbers), **record.about})
    return found


def integral(values: Mapping[str, float]) -> dict[str, Any]:
    """The same constants with times in integer picoseconds."""
    return {name: round(value) if name.endswith(_TIMES) else value for name, value in values.items()}


@cache
def _known() -> tuple[SoftwareProfile, ...]:
    return tuple(assemble({key: fit["values"] for key, fit in fitted().items()}).values())


def all_profiles() -> tuple[SoftwareProfile, ...]:
    """Every profile with its fitted constants."""
    return _known()


def key_of(known: SoftwareProfile) -> str:
    """Under which a profile stands in the data: `name/architecture`, or its name alone."""
    return f"{known.name}/{known.architecture}" if known.architecture else known.name


def origin(known: SoftwareProfile, name: str) -> str:
    """Who says a constant of a profile: the record of its chain of bases that fitted or states it, and from what.

    Args:
        known: A profile, with changes of the job or without.
        name: Field of `SoftwareProfile`.
    """
    chain = {record.key: record for record in records()}
    shipped = next((one for one in all_profiles() if key_of(one) == key_of(known)), None)
    if shipped is None or getattr(shipped, name) != getattr(known, name):
        return f"the job, on profile {known.name}"
    key = key_of(known)
    while key:
        record = chain[key]
        source = f"profile {record.about['name']}: {record.about['source']}"
        if name in fitted().get(key, {}).get("values", {}):
            return f"fitted, {source}"
        if name in record.prior:
            return f"prior, {source}"
        if name in record.stated:
            return f"stated, {source}"
        key = record.base
    return "default of all profiles"


@cache
def _written() -> dict[str, Any]:
    return tomllib.loads((_DATA / "profiles.toml").read_text(encoding="utf-8"))


def _record(written: dict[str, Any], settled: frozenset[str]) -> ProfileRecord:
    about = {name: written.get(name, "") for name in ("name", "architecture", "date", "source")}
    key = f"{about['name']}/{about['architecture']}" if about["architecture"] else about["name"]
    free = tuple(written.get("free", ()))
    # A constant that no base says anything about starts from the prior of all profiles.
    generic = {name: constants()[name].prior for name in free if name not in settled}
    return ProfileRecord(
        key=key,
        base=written.get("base", ""),
        stated=written.get("stated", {}),
        prior={**generic, **written.get("prior", {})},
        free=free,
        about=about,
    )


def names() -> tuple[str, ...]:
    """Names of the profiles, each once."""
    return tuple(dict.fromkeys(known.name for known in all_profiles()))


def profile(name: str, device: Accelerator) -> SoftwareProfile:
    """The profile of that name as read on that device, else on its architecture, else on another one.

    Args:
        name: Such as `megatron-2026`.
        device: On which the software runs.

    Raises:
        InputError: There is no profile of that name.
    """
    named = [known for known in all_profiles() if known.name == name]
    if not named:
        raise InputError(
            f"there is no software profile `{name}`",
            key="software",
            found=name,
            allowed=names(),
            hint=did_you_mean(name, names()),
        )
    return max(named, key=lambda known: _nearness(known, device))


def default(device: Accelerator) -> SoftwareProfile:
    """The profile taken where none is asked for: the newest Megatron generation that was read on that architecture.

    Architectures on which Megatron was not read get what was (MaxText on TPUs), else the cautious `unmeasured-2026`.
    """
    near = [known for known in all_profiles() if read_on(known, device)]
    if not near:
        return profile(_UNMEASURED, device)
    megatron = [known for known in near if known.name.startswith("megatron")]
    return max(megatron or near, key=lambda known: (known.date, _nearness(known, device)))


def read_on(known: SoftwareProfile, device: Accelerator) -> bool:
    """Whether the constants of a profile were read off published runs on that device or its architecture."""
    return _nearness(known, device) > 0


def _nearness(known: SoftwareProfile, device: Accelerator) -> int:
    """2: read on this device; 1: on its architecture; 0: on another."""
    if known.architecture == device.name:
        return 2
    return int(bool(known.architecture) and device.architecture.startswith(known.architecture))
