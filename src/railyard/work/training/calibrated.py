"""A user's own steps as `railyard calibrate runs` writes them, and a profile of software that knows them."""

from __future__ import annotations

import dataclasses
import tomllib
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_text
from railyard.work.training import profiles
from railyard.work.training.pace import TRAITS
from railyard.work.training.spec import OwnRun

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from railyard.work.training.spec import SoftwareProfile

SECTION = "training"
"""Table of the file that holds them; others are of other kinds of measurements."""

OwnRuns = dict[str, tuple[OwnRun, ...]]
"""By key of the profile (`megatron-2025/hopper`)."""

_WORDS, _NUMBERS = ("device", "name"), ("pace", "spread")


def read_runs(path: Path) -> OwnRuns:
    """The steps of a file.

    Raises:
        InputError: It cannot be read, holds none of training, or names a profile or a trait that there is not.
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
    """A table with just these keys."""
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
    """A profile that knows a user's own runs of it; as it is where there are none."""
    return dataclasses.replace(software, own_runs=runs.get(profiles.key_of(software), ()))


def written(runs: Mapping[str, tuple[OwnRun, ...]], source: str) -> str:
    """The file that `software: {constants: FILE}` takes.

    Args:
        runs: By key of the profile.
        source: Name of the table that they come from.
    """
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
