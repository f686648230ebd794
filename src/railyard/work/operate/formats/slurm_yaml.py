"""Slurm's `topology.yaml` (from 25.05 on): several topologies, trees and blocks; the cluster's default is read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.work.operate.formats.slurm_blocks import blocks_of, tree_of_blocks
from railyard.work.operate.formats.slurm_conf import names_of
from railyard.work.operate.hostlist import compress
from railyard.work.operate.topology_file import Switch, TopologyFormat, formats, switches_of, tree_of

if TYPE_CHECKING:
    from railyard.kit.schema.yaml import Node
    from railyard.work.operate.tree import NodeTree


_NEWER = {
    "ring": "a ring, which Slurm has from 26.05 on",
    "torus3d": "a torus, which Slurm has from 26.05 on",
    "flat": "flat: there is nothing to place by",
}


def _read(text: str, file: str) -> NodeTree:
    listed = yaml.parse(text, file).items
    if not listed:
        raise InputError("expected a list of topologies", file=file, allowed="- topology: NAME, with tree: or block:")
    topologies = [_mapping(one) for one in listed]
    default = next((one for one in topologies if _value(one, "cluster_default") is True), topologies[0])
    if "tree" in default:
        return tree_of([_switch(one) for one in _list(_mapping(default["tree"]), "switches")], file)
    if "block" in default:
        block = _mapping(default["block"])
        sizes = [_count(one) for one in _list(block, "block_sizes")] if "block_sizes" in block else []
        return tree_of_blocks([_block(one) for one in _list(block, "blocks")], sizes, file)
    kinds = [key for key in default if key not in ("topology", "cluster_default")]
    newer = next((key for key in kinds if key in _NEWER), None)
    raise InputError(
        f"the cluster's default topology is neither a tree nor blocks{f', but {_NEWER[newer]}' if newer else ''}",
        file=file,
        found=", ".join(kinds),
        allowed="tree, block",
    )


def _mapping(node: Node) -> dict[str, Node]:
    if node.mapping is None:
        raise InputError.many([node.problem(f"expected a mapping of keys, got {yaml.kind_of(node.value)}")])
    return node.mapping


def _list(mapping: dict[str, Node], key: str) -> list[Node]:
    node = mapping.get(key)
    if node is None or node.items is None:
        place = node or next(iter(mapping.values()))
        raise InputError.many([place.problem(f"expected a list `{key}`")])
    return node.items


def _value(mapping: dict[str, Node], key: str) -> object:
    return mapping[key].value if key in mapping else None


def _text(mapping: dict[str, Node], key: str) -> str:
    node = mapping.get(key)
    return "" if node is None or node.value is None else node.text or str(node.value)


def _names(mapping: dict[str, Node], key: str) -> tuple[str, ...]:
    node = mapping.get(key)
    return names_of(_text(mapping, key), node.mark.file, node.mark.line or 0) if node else ()


def _switch(node: Node) -> Switch:
    one = _mapping(node)
    return Switch(_text(one, "switch"), _names(one, "nodes"), _names(one, "children"), node.mark.line or 0)


def _block(node: Node) -> tuple[str, tuple[str, ...]]:
    one = _mapping(node)
    return _text(one, "block"), _names(one, "nodes")


def _count(node: Node) -> int:
    if not isinstance(node.value, int) or isinstance(node.value, bool) or node.value < 1:
        raise InputError.many([node.problem("expected a number of nodes", found=node.text)])
    return node.value


def _write(tree: NodeTree) -> str:
    lines = ["- topology: fabric", "  cluster_default: true", "  tree:", "    switches:"]
    for switch in switches_of(tree):
        key, below = ("nodes", switch.nodes) if switch.nodes else ("children", switch.children)
        lines += [f"      - switch: {switch.name}", f'        {key}: "{compress(below)}"']
    if tree.levels:
        blocks, sizes = blocks_of(tree)
        lines += ["- topology: blocks", "  cluster_default: false", "  block:", "    block_sizes:"]
        lines += [f"      - {size}" for size in sizes]
        lines += ["    blocks:"]
        for name, nodes in blocks:
            lines += [f"      - block: {name}", f'        nodes: "{compress(nodes)}"']
    return "\n".join(lines) + "\n"


formats.add(
    "slurm-yaml",
    TopologyFormat(
        "slurm-yaml",
        "Slurm's topology.yaml: the tree, and its narrowest groups as blocks",
        "topology.yaml",
        lambda text: bool(re.search(r"^\s*-\s*topology:", text, re.MULTILINE)),
        _read,
        _write,
        source="Slurm 25.05 and later",
    ),
)
