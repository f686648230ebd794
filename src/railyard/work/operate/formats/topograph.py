"""NVIDIA topograph's models: `switches:` with their children, `blocks:` of nodes, and its node labels."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.work.operate.formats.slurm import names_of
from railyard.work.operate.topology_file import SwitchNode, TopologyFormat, switches_of, topology_formats, tree_of

if TYPE_CHECKING:
    from railyard.kit.schema.yaml import Node
    from railyard.work.operate.tree import NodeTree

LABELS = ("network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/core")
"""Labels that topograph puts on Kubernetes nodes, narrowest first; schedulers read them."""


def _read(text: str, file: str) -> NodeTree:
    top = yaml.parse_mapping(text, file).mapping or {}
    switches = {name: _children(node) for name, node in (_section(top, "switches").mapping or {}).items()}
    line = {name: node.mark.line or 0 for name, node in (_section(top, "switches").mapping or {}).items()}
    leafs: list[SwitchNode] = []
    for node in _section(top, "blocks").items or []:
        block = node.mapping or {}
        below = tuple(name for one in _texts(block, "nodes") for name in names_of(one, file, node.mark.line or 0))
        leafs.append(
            SwitchNode(_texts(block, "switch")[0] if "switch" in block else "", below, (), node.mark.line or 0)
        )
    at = {leaf.name for leaf in leafs}
    upper = [SwitchNode(name, (), below, line[name]) for name, below in switches.items() if name not in at]
    return tree_of([*_merged(leafs), *upper], file)


def _merged(leafs: list[SwitchNode]) -> list[SwitchNode]:
    """Merges the blocks below one switch into a single leaf."""
    found: dict[str, SwitchNode] = {}
    for leaf in leafs:
        before = found.get(leaf.name)
        found[leaf.name] = leaf if before is None else SwitchNode(leaf.name, before.nodes + leaf.nodes, (), before.line)
    return list(found.values())


def _section(top: dict[str, Node], key: str) -> Node:
    if key not in top:
        raise InputError(f"the model has no `{key}:`", key=key, allowed="switches, blocks")
    return top[key]


def _children(node: Node) -> tuple[str, ...]:
    return tuple(_texts(node.mapping or {}, "switches"))


def _texts(mapping: dict[str, Node], key: str) -> list[str]:
    node = mapping.get(key)
    if node is None:
        return []
    return [one.text or str(one.value) for one in (node.items if node.items is not None else [node])]


def _write(tree: NodeTree) -> str:
    switches = switches_of(tree)
    lines = ["switches:"]
    for switch in switches:
        if switch.children:
            lines += [f"  {switch.name}:", "    switches:", *(f"    - {child}" for child in switch.children)]
    lines.append("blocks:")
    for switch in switches:
        if switch.nodes:
            lines += [f"- switch: {switch.name}", f"  nodes: [{', '.join(switch.nodes)}]"]
    return "\n".join(lines) + "\n"


topology_formats.enter(
    TopologyFormat(
        "topograph",
        "A model of NVIDIA's topograph",
        "model.yaml",
        lambda text: bool(re.search(r"^switches:", text, re.MULTILINE) and re.search(r"^blocks:", text, re.MULTILINE)),
        _read,
        _write,
        source="NVIDIA/topograph, models of 2025",
    ),
)
