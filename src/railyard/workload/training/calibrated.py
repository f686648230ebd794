"""Constants that `railyard calibrate runs` fitted to a user's own steps, in the place of those that ship."""

from __future__ import annotations

import dataclasses
import tomllib
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError, did_you_mean
from railyard.workload.training import profiles

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from railyard.workload.training.spec import SoftwareProfile

SECTION = "training"
"""Table of the file that holds them; others are of other kinds of measurements."""

Constants = dict[str, dict[str, float]]
"""By key of the profile (`megatron-2025/hopper`), by field of `SoftwareProfile`."""


def read_constants(path: Path) -> Constants:
    """The constants of a file.

    Raises:
        InputError: It cannot be read, holds none of training, or names a profile or a constant that there is not.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError("there is no such file", file=path) from error
    except (OSError, ValueError) as error:
        raise InputError(f"the file cannot be read as TOML: {error}", file=path) from error
    section = content.get(SECTION)
    if not isinstance(section, dict) or not section:
        raise InputError(f"the file has no table `{SECTION}`", file=path, found=", ".join(content) or "nothing")
    known = {profiles.key_of(profile) for profile in profiles.all_profiles()}
    found: Constants = {}
    for key, values in section.items():
        if key not in known or not isinstance(values, dict):
            raise InputError(
                f"there is no software profile `{key}`",
                file=path,
                key=f"{SECTION}.{key}",
                found=key,
                hint=did_you_mean(key, known),
            )
        found[key] = {name: _number(name, value, path, f"{SECTION}.{key}") for name, value in values.items()}
    return found


def _number(name: str, value: Any, path: Path, key: str) -> float:
    constants = profiles.ranges()
    if name not in constants:
        raise InputError(
            f"there is no constant `{name}`",
            file=path,
            key=key,
            found=name,
            allowed=list(constants),
            hint=did_you_mean(name, constants),
        )
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise InputError("a constant is a number above 0", file=path, key=f"{key}.{name}", found=value)
    return float(value)


def over(software: SoftwareProfile, constants: Mapping[str, Mapping[str, float]]) -> SoftwareProfile:
    """A profile with a user's constants in the place of its own; as it is where there are none for it."""
    values = constants.get(profiles.key_of(software), {})
    return dataclasses.replace(software, **profiles.integral(values)) if values else software
