"""Volcano's HyperNodes: a tier for every level of switches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError
from railyard.work.operate.formats.kubernetes import documents, node_name
from railyard.work.operate.kueue.manifests import node, text
from railyard.work.operate.kueue.room import matches_labels
from railyard.work.operate.kueue.state import parse_manifests, read_each
from railyard.work.operate.topology_file import Switch, TopologyFormat, formats, switches_of, tree_of

if TYPE_CHECKING:
    from railyard.work.operate.kueue.objects import Node
    from railyard.work.operate.tree import NodeTree


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


def _read(words: str, file: str) -> NodeTree:
    objects = parse_manifests(words, file)
    nodes = read_each([one for one in objects if one["kind"] == "Node"], node)
    hypernodes = [one for one in objects if one["kind"] == "HyperNode"]
    return tree_of(read_each(hypernodes, lambda one: _switch(one, nodes)), file)


def _switch(manifest: dict[str, Any], nodes: list[Node]) -> Switch:
    below: dict[str, list[str]] = {"Node": [], "HyperNode": []}
    for member in manifest["spec"].get("members") or ():
        kind = text(member, "type")
        if kind not in below:
            raise InputError("no type of a member", key="type", found=kind, allowed=list(below))
        below[kind] += _members(member["selector"], nodes, kind)
    return Switch(text(manifest["metadata"], "name"), tuple(below["Node"]), tuple(below["HyperNode"]))


def _members(selector: dict[str, Any], nodes: list[Node], kind: str) -> list[str]:
    """Names that a selector gives; patterns and labels are held to the nodes of the file."""
    if selector.get("exactMatch"):
        return [text(selector["exactMatch"], "name")]
    if kind == "HyperNode":
        raise InputError("HyperNodes are members by name", key="selector", allowed="exactMatch")
    if selector.get("regexMatch"):
        pattern = re.compile(text(selector["regexMatch"], "pattern"))
        return [one.name for one in nodes if pattern.search(one.name)]
    return [one.name for one in nodes if matches_labels(selector["labelMatch"], one.labels)]


formats.add(
    "volcano",
    TopologyFormat(
        "volcano",
        "Volcano's HyperNodes, a tier for every level of switches",
        "hypernodes.yaml",
        lambda words: bool(re.search(r'kind"?: *"?HyperNode\b', words)),
        _read,
        _hypernodes,
        source="Volcano topology.volcano.sh/v1alpha1",
    ),
)
