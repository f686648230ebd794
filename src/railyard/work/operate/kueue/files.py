"""Files of manifests: YAML documents, or JSON as `kubectl get -o json` gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from railyard.kit.errors import InputError
from railyard.kit.files import read_text
from railyard.work.operate.kueue.state import cluster

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from railyard.work.operate.kueue.snapshot import Cluster


def is_manifests(path: Path) -> bool:
    """Whether a file holds objects of Kueue."""
    text = read_text(path, errors="replace")
    return "kueue.x-k8s.io/" in text and "kind" in text


def read_manifests(path: Path) -> list[dict[str, Any]]:
    """The objects of a file.

    Raises:
        InputError: It is no YAML, or something in it is no object.
    """
    return parse_manifests(read_text(path), path)


def parse_manifests(text: str, path: str | Path) -> list[dict[str, Any]]:
    """The objects of a text, those of lists one by one.

    Raises:
        InputError: It is no YAML, or something in it is no object.
    """
    try:
        documents = [one for one in yaml.load_all(text, Loader=_LOADER) if one is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else None
        raise InputError(
            "this is no YAML", file=path, line=line, found=str(getattr(error, "problem", error))
        ) from error
    found: list[dict[str, Any]] = []
    for one in documents:
        items = one.get("items", [one]) if isinstance(one, dict) else [one]
        found += items if isinstance(items, list) else [items]
    for item in found:
        if not isinstance(item, dict) or "kind" not in item:
            raise InputError("an object has a `kind`", file=path, found=repr(item)[:60])
        group, _, version = str(item.get("apiVersion", "")).rpartition("/")
        if version not in _VERSIONS.get(group, (version,)):
            raise InputError(
                f"{item['kind']} is of a version that is not read",
                file=path,
                key="apiVersion",
                found=f"{group}/{version}",
                allowed=[f"{group}/{one}" for one in _VERSIONS[group]],
            )
    return found


_VERSIONS = {"kueue.x-k8s.io": ("v1alpha1", "v1beta1", "v1beta2"), "topology.volcano.sh": ("v1alpha1",)}
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
