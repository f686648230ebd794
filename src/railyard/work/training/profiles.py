"""Dated constants of training software, one set per (software generation, device architecture or device).

A profile says how close software comes to the device's best kernels, what it fuses, its host cost, and what
it can hide. The records are data: `data/profiles.toml` holds the stated facts and what each of the few constants, which
are the same for all software and devices, has as a prior; `data/fitted.json` has their values and the published runs
that gave them.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, did_you_mean
from railyard.work.training.spec import SoftwareProfile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.catalog import Accelerator

_DATA = files("railyard.work.training") / "data"
_TIMES = "_ps"
_UNMEASURED = "unmeasured-2026"


@dataclass(frozen=True, slots=True)
class SharedConstant:
    """One number for all software and devices, fitted on published runs.

    Attributes:
        fields: Of `SoftwareProfile`, which it gives or multiplies.
        low, high: Bounds.
        spread: One standard deviation of its natural logarithm about the prior.
        on: Keys of profiles, or architectures, for which it holds; empty: all.
    """

    fields: tuple[str, ...]
    prior: float
    low: float
    high: float
    spread: float
    why: str
    on: tuple[str, ...] = ()

    def holds(self, record: ProfileRecord) -> bool:
        """Whether it applies to a profile."""
        return not self.on or record.key in self.on or record.about["architecture"] in self.on


@dataclass(frozen=True, slots=True)
class ProfileRecord:
    """A profile as it is written down, before bases and constants are put together.

    Attributes:
        key: `name/architecture`, or the name alone.
        base: Key of the profile that holds where this one says nothing, or "".
        stated: Facts, which no constant moves.
        share: What this software reaches of a field's constants.
        about: `name`, `architecture`, `date`, `source`.
    """

    key: str
    base: str
    stated: Mapping[str, Any]
    share: Mapping[str, float]
    about: Mapping[str, str]


@cache
def records() -> tuple[ProfileRecord, ...]:
    """All profiles as written, each after its base."""
    return tuple(_record(written) for written in _written()["profile"])


@cache
def constants() -> dict[str, SharedConstant]:
    """The constants that are fitted, by name."""
    return {
        name: SharedConstant(**{**written, "fields": tuple(written["fields"]), "on": tuple(written.get("on", ()))})
        for name, written in _written()["constant"].items()
    }


@cache
def fitted() -> dict[str, Any]:
    """What was fitted: `values` and `spread` by constant, the `rows` that gave them, the mean |error| over these."""
    found: dict[str, Any] = json.loads((_DATA / "fitted.json").read_text(encoding="utf-8"))
    return found


def assemble(values: Mapping[str, float]) -> dict[str, SoftwareProfile]:
    """Every profile by its key: constants times this software's shares, then stated facts, its base's first.

    Args:
        values: Of constants, by name; one without a value keeps its prior.
    """
    settled: dict[str, tuple[dict[str, Any], dict[str, float]]] = {"": ({}, {})}
    found: dict[str, SoftwareProfile] = {}
    for record in records():
        stated, share = settled[record.base]
        stated, share = {**stated, **record.stated}, {**share, **record.share}
        settled[record.key] = stated, share
        given = {name: value for name, value in _given(record, values).items() if name not in stated}
        shared = {name: value * share.get(name, 1.0) for name, value in given.items()}
        found[record.key] = SoftwareProfile(**{**integral(shared), **stated, **record.about})
    return found


def _given(record: ProfileRecord, values: Mapping[str, float]) -> dict[str, float]:
    """What constants give the fields of a profile; several of one field multiply."""
    found: dict[str, float] = {}
    for name, constant in constants().items():
        for field in constant.fields if constant.holds(record) else ():
            found[field] = found.get(field, 1.0) * values.get(name, constant.prior)
    return found


def integral(values: Mapping[str, float]) -> dict[str, Any]:
    """The same constants with times in integer picoseconds."""
    return {name: round(value) if name.endswith(_TIMES) else value for name, value in values.items()}


@cache
def all_profiles() -> tuple[SoftwareProfile, ...]:
    """Every profile with its fitted constants."""
    return tuple(assemble(fitted()["values"]).values())


def key_of(known: SoftwareProfile) -> str:
    """Key of a profile in the data: `name/architecture`, or its name alone."""
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
    key, given = key_of(known), _given(chain[key_of(known)], {})
    while key:
        record = chain[key]
        source = f"profile {record.about['name']}: {record.about['source']}"
        if name in record.stated:
            return f"stated, {source}"
        key = record.base
    return "fitted on published runs of all software" if name in given else "default of all profiles"


@cache
def _written() -> dict[str, Any]:
    return tomllib.loads((_DATA / "profiles.toml").read_text(encoding="utf-8"))


def _record(written: dict[str, Any]) -> ProfileRecord:
    about = {name: written.get(name, "") for name in ("name", "architecture", "date", "source")}
    key = f"{about['name']}/{about['architecture']}" if about["architecture"] else about["name"]
    stated = {
        name: tuple(value) if isinstance(value, list) else value for name, value in written.get("stated", {}).items()
    }
    return ProfileRecord(key, written.get("base", ""), stated, written.get("share", {}), about)


def names() -> tuple[str, ...]:
    """Names of the profiles, each once."""
    return tuple(dict.fromkeys(known.name for known in all_profiles()))


def profile(name: str, device: Accelerator) -> SoftwareProfile:
    """The profile of that name as read on that device, else on its architecture, else on another one.

    Args:
        name: Such as `megatron-2026`.
        device: The accelerator.

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
