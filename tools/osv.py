"""Advisories in OSV's format (YAML or JSON, one a file) held against pinned packages, without a network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pins
import yaml
from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Package:
    """A package by OSV's names: ecosystem (`PyPI`, `npm`), name, version."""

    ecosystem: str
    name: str
    version: str


def advisories(folder: Path) -> Iterator[dict[str, Any]]:
    """Give every advisory below a folder, a checkout of pypa/advisory-database say, that was not withdrawn."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".yaml", ".yml"}:
            found = yaml.load(path.read_bytes(), Loader=loader)
        elif path.suffix == ".json":
            found = json.loads(path.read_bytes())
        else:
            continue
        if isinstance(found, dict) and "affected" in found and not found.get("withdrawn"):
            yield found


def hits(rows: Iterable[dict[str, Any]], packages: Iterable[Package]) -> list[tuple[Package, str]]:
    """Return each pinned package with the advisory that names its version."""
    wanted = {(one.ecosystem, pins.normalized(one.name)): one for one in packages}
    found = []
    for row in rows:
        for affected in row["affected"]:
            about = affected.get("package", {})
            one = wanted.get((about.get("ecosystem", ""), pins.normalized(about.get("name", ""))))
            if one is not None and is_affected(affected, one.version):
                found.append((one, row["id"]))
    return sorted(set(found), key=lambda pair: (pair[0].name, pair[1]))


def is_affected(affected: dict[str, Any], version: str) -> bool:
    """Tell whether a version is listed, or in a range from `introduced` up to `fixed` or through `last_affected`."""
    if version in map(str, affected.get("versions", ())):
        return True
    return any(within(one["events"], version) for one in affected.get("ranges", ()) if one["type"] != "GIT")


def within(events: list[dict[str, str]], version: str) -> bool:
    try:
        here = Version(version)
        steps = sorted((Version(limit), what) for event in events for what, limit in event.items())
    except InvalidVersion:
        return True  # a version that cannot be ordered hides nothing: a person looks
    inside = False
    for limit, what in steps:
        if what == "introduced" and here >= limit:
            inside = True
        elif (what == "fixed" and here >= limit) or (what == "last_affected" and here > limit):
            inside = False
    return inside
