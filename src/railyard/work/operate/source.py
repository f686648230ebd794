"""The nodes of a cluster, from whatever file describes it: a scenario, a scheduler's file, a discovered fabric."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_text
from railyard.work.operate.formats.lists import nodes_of
from railyard.work.operate.topology_file import read_topology
from railyard.work.operate.tree import NodeTree

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


def read_nodes(path: Path, name: str | None = None, names: Path | None = None) -> NodeTree:
    """The nodes of a cluster.

    Args:
        path: A scenario, or a file of a format of topologies.
        name: The format; None: recognised.
        names: A list of nodes in the order of a scenario's servers; None: node-0, node-1 and so on.

    Raises:
        InputError: A file cannot be read, or is wrong.
    """
    tree = _of_scenario(path) if name is None and is_scenario(path) else read_topology(path, name)
    if names is None:
        return tree
    found = nodes_of(read_text(names), str(names))
    if len(found) != tree.nodes or len(set(found)) != len(found):
        raise InputError(
            "the list has not a name for every server", file=str(names), found=len(set(found)), allowed=str(tree.nodes)
        )
    return replace(tree, names=tuple(found))


def is_scenario(path: Path) -> bool:
    """Whether a file is a scenario."""
    if path.suffix not in (".yaml", ".yml"):
        return False
    return bool(re.search(r"^cluster:", read_text(path), re.MULTILINE))


def _of_scenario(path: Path) -> NodeTree:
    from railyard.work.scenario.load import load
    from railyard.work.study.compose import catalog_of, cluster_of

    draft = load(path)
    # Where a scenario scatters its job, servers are in the order of ranks; here they stand as they are cabled.
    as_cabled = draft.scenario.cluster.model_copy(update={"placement": "packed"})
    return NodeTree.of(cluster_of(draft, catalog_of(draft), as_cabled))


def numbers(tree: NodeTree, path: Path) -> NDArray[np.int32]:
    """Numbers of the nodes of a list.

    Raises:
        InputError: The cluster has no such node.
    """
    names = nodes_of(read_text(path), str(path))
    unknown = next((name for name in names if name not in tree.number), None)
    if unknown is not None:
        raise InputError(
            f"the cluster has no node `{unknown}`",
            file=str(path),
            found=unknown,
            hint=did_you_mean(unknown, tree.names),
        )
    return np.array([tree.number[name] for name in dict.fromkeys(names)], np.int32)
