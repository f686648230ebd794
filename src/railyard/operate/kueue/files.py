"""Files of manifests: YAML documents, or JSON as `kubectl get -o json` gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from railyard.errors import InputError
from railyard.files import read_text
from railyard.operate.kueue.state import cluster

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from railyard.operate.kueue.snapshot import Cluster


def is_manifests(path: Path) -> bool:
    """Whether a file holds objects of Kueue."""
    text = read_text(path, errors="replace")
    return "kueue.x-k8s.io/" in text and "kind" in text


def read_manifests(path: Path) -> list[dict[str, Any]]:
    """The objects of a file.

    Raises:
        InputError: It is no YAML, or something in it is no object.
    """
    try:
        found = [one for one in yaml.load_all(read_text(path), Loader=_LOADER) if one is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else None
        raise InputError(
            "this is no YAML", file=path, line=line, found=str(getattr(error, "problem", error))
        ) from error
    for one in found:
        items = one.get("items", [one]) if isinstance(one, dict) else [one]
        for item in items if isinstance(items, list) else [items]:
            if not isinstance(item, dict) or "kind" not in item:
                raise InputError("an object has a `kind`", file=path, found=repr(item)[:60])
    return found


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_cluster(paths: Iterable[Path]) -> Cluster:
    """The cluster that files describe together.

    Raises:
        InputError: Names the file and the object that is wrong.
    """
    paths = list(dict.fromkeys(paths))
    manifests = [one for path in paths for one in read_manifests(path)]
    try:
        return cluster(manifests)
    except InputError as error:
        raise error.located(file=paths[0]) from None
