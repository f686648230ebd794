"""Kubernetes formats: node labels, Kueue's Topology with a ResourceFlavor, and Volcano's HyperNodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError
from railyard.work.operate.kueue.manifests import node, text
from railyard.work.operate.kueue.room import matches_labels
from railyard.work.operate.kueue.state import levels_of, parse_manifests, read_each
from railyard.work.operate.topology_file import SwitchNode, TopologyFormat, switches_of, topology_formats, tree_of
from railyard.work.operate.tree import NodeTree

if TYPE_CHECKING:
    from railyard.work.operate.kueue.objects import KubernetesNode


PREFIX = "topology.railyard.dev"
"""Prefix of labels: `topology.railyard.dev/leaf`."""
_CLUSTER = f"{PREFIX}/cluster"
HOSTNAME = "kubernetes.io/hostname"
_DEVICES = ("/gpu", "/tpu", "/gaudi", "/neuron", "/xpu", "/npu")
"""Suffixes of accelerator resources: nvidia.com/gpu, google.com/tpu, habana.ai/gaudi."""
_MOST_LEVELS = 16
"""Kueue's limit, including the node level."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def labels(tree: NodeTree) -> dict[str, dict[str, str]]:
    """Labels of every node, by node name.

    Raises:
        InputError: A name is not valid for a Kubernetes node or label.
    """
    switch_of: list[dict[str, str]] = [{} for _ in tree.names]
    for level, name in enumerate(tree.levels):
        words = [_value(word or f"{name}-{number}") for number, word in enumerate(tree.group_names[level])]
        for number, group in enumerate(tree.group[level].tolist()):
            switch_of[number][f"{PREFIX}/{_value(name)}"] = words[group]
    return {node_name(name): found for name, found in zip(tree.names, switch_of, strict=True)}


def node_name(name: str) -> str:
    """A name as Kubernetes accepts it.

    Raises:
        InputError: Kubernetes does not accept the name.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"`{name}` is not a valid name of a Kubernetes node", found=name, allowed="a-z, 0-9, '-' and '.'"
        )
    return name


def _value(word: str) -> str:
    word = word.replace(",", "_")
    if not _VALUE.fullmatch(word):
        raise InputError(
            f"`{word}` is not a valid label", found=word, allowed="up to 63 of A-Z, a-z, 0-9, '-', '_', '.'"
        )
    return word


def documents(objects: list[dict[str, Any]]) -> str:
    """Objects as YAML documents."""
    import yaml

    return yaml.safe_dump_all(objects, sort_keys=False, explicit_start=True)


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
    return documents([topology, *flavors, *nodes])


def _flavors(tree: NodeTree) -> list[tuple[str, dict[str, str]]]:
    """Name and labels of one flavor for all nodes, or one per network: a pod set gets one flavor only."""
    if tree.joined or not tree.levels:
        return [("fabric", {_CLUSTER: "main"})]
    label = f"{PREFIX}/{_value(tree.levels[0])}"
    words = [word or f"{tree.levels[0]}-{number}" for number, word in enumerate(tree.group_names[0])]
    return [(node_name(word.lower()), {label: _value(word)}) for word in words]


def _read_kueue(text: str, file: str) -> NodeTree:
    """Nodes of a flavor's topology, with its levels above the node; nodes that are not ready are left out."""
    objects = parse_manifests(text, file)
    topologies = dict(read_each([one for one in objects if one["kind"] == "Topology"], levels_of))
    flavors = [one for one in objects if one["kind"] == "ResourceFlavor" and one.get("spec", {}).get("topologyName")]
    named = sorted({one["spec"]["topologyName"] for one in flavors} or topologies)
    if len(named) != 1 or named[0] not in topologies:
        raise InputError(
            "a cluster has one Topology", file=file, found=", ".join(named) or "none", allowed=sorted(topologies)
        )
    levels = [label for label in topologies[named[0]] if label != HOSTNAME]
    selected = [one["spec"].get("nodeLabels") or {} for one in flavors] or [{}]
    ready = [one for one in read_each([one for one in objects if one["kind"] == "Node"], node) if one.ready]
    labelled = [one for one in ready if set(levels) <= one.labels.keys()]
    nodes = [one for one in labelled if any(chosen.items() <= one.labels.items() for chosen in selected)]
    if not nodes:
        raise InputError("no node is ready and has the labels of the Topology and its flavor", file=file)
    return NodeTree.listed(
        [one.name for one in nodes],
        np.array([accelerators(one) for one in nodes], np.int32),
        [(label.rsplit("/", 1)[-1], [one.labels[label] for one in nodes]) for label in levels],
        joined=len(flavors) < 2,
    )


def accelerators(one: KubernetesNode) -> int:
    """Devices that a node offers; 1 if it does not say."""
    return sum(count for resource, count in one.room.items() if resource.endswith(_DEVICES)) or 1


topology_formats.enter(
    TopologyFormat(
        "kueue",
        "Kueue's Topology, a ResourceFlavor, and the nodes' labels",
        "kueue.yaml",
        lambda text: bool(re.search(r'kind"?: *"?Topology\b', text)) and "kueue.x-k8s.io" in text,
        _read_kueue,
        _kueue,
        source="Kueue v1beta2",
    ),
)


def _hypernodes(tree: NodeTree) -> str:
    switches = switches_of(tree)
    tier: dict[str, int] = {}
    found = []
    for switch in switches:
        tier[switch.name] = 1 + max((tier[child] for child in switch.children), default=0)
        kind, names = ("Node", switch.nodes) if switch.nodes else ("HyperNode", switch.children)
        found.append(
            {
                "apiVersion": "topology.volcano.sh/v1alpha1",
                "kind": "HyperNode",
                "metadata": {"name": node_name(switch.name.lower())},
                "spec": {
                    "tier": tier[switch.name],
                    "members": [
                        {
                            "type": kind,
                            "selector": {"exactMatch": {"name": node_name(name if kind == "Node" else name.lower())}},
                        }
                        for name in names
                    ],
                },
            }
        )
    return documents(found)


def _read_volcano(words: str, file: str) -> NodeTree:
    objects = parse_manifests(words, file)
    nodes = read_each([one for one in objects if one["kind"] == "Node"], node)
    hypernodes = [one for one in objects if one["kind"] == "HyperNode"]
    return tree_of(read_each(hypernodes, lambda one: _switch(one, nodes)), file)


def _switch(manifest: dict[str, Any], nodes: list[KubernetesNode]) -> SwitchNode:
    below: dict[str, list[str]] = {"Node": [], "HyperNode": []}
    for member in manifest["spec"].get("members") or ():
        kind = text(member, "type")
        if kind not in below:
            raise InputError("no type of a member", key="type", found=kind, allowed=list(below))
        below[kind] += _members(member["selector"], nodes, kind)
    return SwitchNode(text(manifest["metadata"], "name"), tuple(below["Node"]), tuple(below["HyperNode"]))


def _members(selector: dict[str, Any], nodes: list[KubernetesNode], kind: str) -> list[str]:
    """Names that a selector matches; patterns and labels are matched against the nodes of the file."""
    if selector.get("exactMatch"):
        return [text(selector["exactMatch"], "name")]
    if kind == "HyperNode":
        raise InputError("HyperNodes are members by name", key="selector", allowed="exactMatch")
    if selector.get("regexMatch"):
        pattern = re.compile(text(selector["regexMatch"], "pattern"))
        return [one.name for one in nodes if pattern.search(one.name)]
    return [one.name for one in nodes if matches_labels(selector["labelMatch"], one.labels)]


topology_formats.enter(
    TopologyFormat(
        "volcano",
        "Volcano's HyperNodes, a tier for every level of switches",
        "hypernodes.yaml",
        lambda words: bool(re.search(r'kind"?: *"?HyperNode\b', words)),
        _read_volcano,
        _hypernodes,
        source="Volcano topology.volcano.sh/v1alpha1",
    ),
)
