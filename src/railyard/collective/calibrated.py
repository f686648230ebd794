"""Constants of libraries that `railyard calibrate runs` fitted to a user's own log, in the place of those that ship."""

from __future__ import annotations

import tomllib
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from railyard.collective.measured import MEASURED, LogConstants
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

SECTION = "collectives"
"""Table of the file that holds them; others are of other kinds of measurements."""


def read_constants(path: Path) -> LogConstants:
    """The constants of a file over those that ship.

    Raises:
        InputError: It cannot be read, holds none of collectives, or names a constant that there is not.
    """
    try:
        content = tomllib.loads(read_text(path))
    except ValueError as error:
        raise InputError(f"the file cannot be read as TOML: {error}", file=path) from error
    section = content.get(SECTION)
    if not isinstance(section, dict):
        raise InputError(f"the file has no table `{SECTION}`", file=path, found=", ".join(content) or "nothing")
    known = [field.name for field in fields(LogConstants)]
    for name, value in section.items():
        key = f"{SECTION}.{name}"
        if name not in known:
            hint = did_you_mean(name, known)
            raise InputError(f"there is no constant `{name}`", file=path, key=key, found=name, allowed=known, hint=hint)
        most = 1.0 if name.endswith("_share") else float("inf")
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not 0 < value <= most
            or value == float("inf")
        ):
            allowed = "above 0, at most 1" if most == 1.0 else "above 0"
            raise InputError("no such value for a constant", file=path, key=key, found=value, allowed=allowed)
    return replace(MEASURED, **{name: float(value) for name, value in section.items()})
