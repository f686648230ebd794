"""Kubernetes: labels of nodes, Kueue's Topology with a ResourceFlavor, and Volcano's HyperNodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError
from railyard.operate.topology_file import TopologyFormat, formats, switches_of

if TYPE_CHECKING:
    from railyard.operate.tree import NodeTree

PREFIX = "topology.railyard.dev"
"""Of labels: `topology.railyard.dev/leaf`."""
_CLUSTER = f"{PREFIX}/cluster"
HOSTNAME = "kubernetes.io/hostname"
_MOST_LEVELS = 16
"""Kueue's limit, node included."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def labels(tree: NodeTree) -> dict[str, dict[str, str]]:
    """Labels of every node, by node.

    Raises:
        InputError: A name is none that Kubernetes takes for a node or a label.
    """
    switch_of: list[dict[str, str]] = [{} for _ in tree.names]
    for level, name in enumerate(tree.levels):
        words = [_value(word or f"{name}-{number}") for number, word in enumerate(tree.group_names[level])]
        for node, group in enumerate(tree.group[level].tolist()):
            switch_of[node][f"{PREFIX}/{_value(name)}"] = words[group]
    return {_node(name): found for name, found in zip(tree.names, switch_of, strict=True)}


def _node(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InputError(f"`{name}` is no name for a Kubernetes node", found=name, allowed="a-z, 0-9, '-' and '.'")
    return name


def _value(word: str) -> str:
    word = word.replace(",", "_")
    if not _VALUE.fullmatch(word):
        raise InputError(
            f"`{word}` is no value of a label", found=word, allowed="up to 63 of A-Z, a-z, 0-9, '-', '_', '.'"
        )
    return word


def _documents(documents: list[dict[str, Any]]) -> str:
    import yaml

    return yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True)


def _kueue(tree: NodeTree) -> str:
    levels = [*(f"{PREFIX}/{_value(name)}" for name in tree.levels), HOSTNAME]
    if len(levels) > _MOST_LEVELS:
        raise InputError("Kueue takes fewer levels", found=str(len(levels)), allowed=str(_MOST_LEVELS))
    topology = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Topology",
        "metadata": {"name": "fabric"},
        "spec": {"levels": [{"nodeLabel": label} for label in levels]},
    }
    flavors = [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ResourceFlavor",
            "metadata": {"name": name},
            "spec": {"nodeLabels": selected, "topologyName": "fabric"},
        }
        for name, selected in _flavors(tree)
    ]
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {_CLUSTER: "main", **found}},
        }
        for name, found in labels(tree).items()
    ]
    return _documents([topology, *flavors, *nodes])


def _flavors(tree: NodeTree) -> list[tuple[str, dict[str, str]]]:
    """Name and labels of a flavor for all nodes, or for each network: a pod set gets one flavor, and so one network."""
    if tree.joined or not tree.levels:
        return [("fabric", {_CLUSTER: "main"})]
    label = f"{PREFIX}/{_value(tree.levels[0])}"
    words = [word or f"{tree.levels[0]}-{number}" for number, word in enumerate(tree.group_names[0])]
    return [(_node(word.lower()), {label: _value(word)}) for word in words]


def _hypernodes(tree: NodeTree) -> str:
    switches = switches_of(tree)
    tier: dict[str, int] = {}
    documents = []
    for switch in switches:
        tier[switch.name] = 1 + max((tier[child] for child in switch.children), default=0)
        kind, names = ("Node", switch.nodes) if switch.nodes else ("HyperNode", switch.children)
        documents.append(
            {
                "apiVersion": "topology.volcano.sh/v1alpha1",
                "kind": "HyperNode",
                "metadata": {"name": _node(switch.name.lower())},
                "spec": {
                    "tier": tier[switch.name],
                    "members": [
                        {
                            "type": kind,
                            "selector": {"exactMatch": {"name": _node(name if kind == "Node" else name.lower())}},
                        }
                        for name in names
                    ],
                },
            }
        )
    return _documents(documents)


formats.add(
    "kueue",
    TopologyFormat(
        "kueue",
        "Kueue's Topology, a ResourceFlavor, and the nodes' labels",
        "kueue.yaml",
        lambda text: "kind: Topology" in text and "kueue.x-k8s.io" in text,
        None,
        _kueue,
        source="Kueue v1beta2",
    ),
)
formats.add(
    "volcano",
    TopologyFormat(
        "volcano",
        "Volcano's HyperNodes, a tier for every level of switches",
        "hypernodes.yaml",
        lambda text: "kind: HyperNode" in text,
        None,
        _hypernodes,
        source="Volcano topology.volcano.sh/v1alpha1",
    ),
)
