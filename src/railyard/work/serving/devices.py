"""Constants of an engine on one device, where recorded runs gave them: what stands over the table's profile.

`data/devices.toml` has those that ship; `railyard calibrate serving` writes the same format from a user's own runs. An
entry names each run behind it, with the constants that it told.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_text
from railyard.work.serving.software import CONSTANTS, ServingSoftware

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SHIPPED = files("railyard.work.serving") / "data" / "devices.toml"


@dataclass(frozen=True)
class ProfiledRun:
    """One run behind a profile.

    Attributes:
        name: Of the run.
        digest: Of its requests, so that it is known again under another name.
        given: Constants that it gave.
    """

    name: str
    digest: str
    given: tuple[str, ...]


@dataclass(frozen=True)
class DeviceProfile:
    """Constants of one engine on one device.

    Attributes:
        engine, device: Names.
        source: Whose runs, when.
        constants: By field of `ServingSoftware`.
        runs: That gave them.
    """

    engine: str
    device: str
    source: str
    constants: Mapping[str, float]
    runs: tuple[ProfiledRun, ...] = field(default_factory=tuple)

    def over(self, software: ServingSoftware) -> ServingSoftware:
        """A profile with these constants in the place of its own."""
        values = {name: getattr(software, name) for name in CONSTANTS} | dict(self.constants)
        return ServingSoftware(name=software.name, architecture=software.architecture, source=self.source, **values)


Profiles = dict[tuple[str, str], DeviceProfile]


@cache
def shipped() -> Profiles:
    """The profiles that come with Railyard, by engine and device."""
    return parse(tomllib.loads(_SHIPPED.read_text(encoding="utf-8")), str(_SHIPPED))


def read_profiles(path: Path) -> Profiles:
    """The profiles of a file.

    Raises:
        InputError: It cannot be read, or names a constant that there is not.
    """
    try:
        content = tomllib.loads(read_text(path))
    except ValueError as error:
        raise InputError(f"the file cannot be read as TOML: {error}", file=path) from error
    return parse(content, str(path))


def parse(content: Mapping[str, Any], file: str) -> Profiles:
    """Profiles from `[engine.device]` tables."""
    found: Profiles = {}
    for engine, devices in content.items():
        for device, entry in devices.items() if isinstance(devices, dict) else ():
            key = f"{engine}.{device}"
            if not isinstance(entry, dict) or not isinstance(entry.get("constants"), dict):
                raise InputError("a profile has a table `constants`", file=file, key=key)
            runs = tuple(
                ProfiledRun(str(run.get("name", "")), str(run.get("digest", "")), tuple(run.get("given", ())))
                for run in entry.get("runs", ())
            )
            constants = _constants(entry["constants"], file, f"{key}.constants")
            found[engine, device] = DeviceProfile(engine, device, str(entry.get("source", file)), constants, runs)
    return found


def _constants(written: Mapping[str, Any], file: str, key: str) -> dict[str, float]:
    found = {}
    for name, value in written.items():
        if name not in CONSTANTS:
            raise InputError(
                f"there is no constant `{name}`", file=file, key=key, found=name, hint=did_you_mean(name, CONSTANTS)
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise InputError("a constant is a number above 0", file=file, key=f"{key}.{name}", found=value)
        found[name] = float(value)
    return found


def written(profiles: Profiles) -> str:
    """Profiles as TOML, as `read_profiles` reads them."""
    lines = []
    for profile in profiles.values():
        name = f"{profile.engine}.{profile.device}"
        lines += [f"[{name}]", f'source = "{profile.source}"', "", f"[{name}.constants]"]
        lines += [f"{constant} = {value:.4g}" for constant, value in profile.constants.items()]
        for run in profile.runs:
            given = ", ".join(f'"{one}"' for one in run.given)
            lines += ["", f"[[{name}.runs]]", f'name = "{run.name}"', f'digest = "{run.digest}"', f"given = [{given}]"]
        lines.append("")
    return "\n".join(lines)
