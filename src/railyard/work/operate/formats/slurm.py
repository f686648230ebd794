"""Slurm's `topology.conf` of switches or blocks (topology/tree, topology/block), and `topology.yaml` (25.05)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.network_table import natural
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.schema import yaml
from railyard.work.operate.topology_file import (
    SwitchNode,
    TopologyFormat,
    compress_hostlist,
    expand_hostlist,
    switches_of,
    topology_formats,
    tree_of,
)
from railyard.work.operate.tree import NodeTree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.kit.schema.yaml import Node


_BOTH = "topology.conf has switches (topology/tree) or blocks (topology/block); both together are topology.yaml, 25.05"
_OTHERS = {
    "blocklevels": "BlockLevels is of Slurm 23.11; from 24.05 on BlockSizes says the sizes of blocks, in nodes",
    "switchname": _BOTH,
    "blockname": _BOTH,
}
"""Keys of other versions, or of the other plugin."""
_SWITCH_KEYS = {"switchname": "SwitchName", "nodes": "Nodes", "switches": "Switches", "linkspeed": "LinkSpeed"}


def lines_of(text: str, keys: dict[str, str], file: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Number and `key=value` pairs of each line; comments, blank lines and continuation lines as in Slurm.

    Raises:
        InputError: A word is not a pair, or its key is unknown.
    """
    joined, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        start = start or number
        joined += line.split("#", 1)[0].rstrip()
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        if joined.strip():
            yield start, _pairs(joined, keys, file, start)
        joined, start = "", 0


def _pairs(line: str, keys: dict[str, str], file: str, number: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in line.split():
        key, equals, value = word.partition("=")
        if not equals or key.lower() not in keys:
            if key.lower() in _OTHERS:
                raise InputError(_OTHERS[key.lower()], file=file, line=number, found=word)
            raise InputError(
                f"expected {', '.join(keys.values())}, got `{key}`",
                file=file,
                line=number,
                found=word,
                allowed=list(keys.values()),
                hint=did_you_mean(key.lower(), keys),
            )
        found[key.lower()] = value
    return found


def names_of(value: str, file: str, line: int) -> tuple[str, ...]:
    """Names of a bracketed list; errors give the line."""
    try:
        return tuple(expand_hostlist(value))
    except InputError as error:
        wrong = error.problems[0]
        raise InputError(wrong.message, file=file, line=line, found=value, allowed=wrong.allowed) from error


def _read_switches(text: str, file: str) -> NodeTree:
    switches = []
    for line, pairs in lines_of(text, _SWITCH_KEYS, file):
        if "switchname" not in pairs:
            raise InputError("a line has no SwitchName", file=file, line=line)
        switches.append(
            SwitchNode(
                pairs["switchname"],
                names_of(pairs.get("nodes", ""), file, line),
                names_of(pairs.get("switches", ""), file, line),
                line,
            )
        )
    return tree_of(switches, file)


def _write_switches(tree: NodeTree) -> str:
    lines = [
        f"SwitchName={switch.name} "
        + (
            f"Nodes={compress_hostlist(switch.nodes)}"
            if switch.nodes
            else f"Switches={compress_hostlist(switch.children)}"
        )
        for switch in switches_of(tree)
    ]
    return "\n".join(lines) + "\n"


topology_formats.enter(
    TopologyFormat(
        "slurm-tree",
        "Slurm's topology/tree",
        "topology.conf",
        lambda text: bool(re.search(r"^\s*SwitchName=", text, re.MULTILINE | re.IGNORECASE)),
        _read_switches,
        _write_switches,
        source="Slurm 22.05 and later",
    ),
)


_BLOCK_KEYS = {"blockname": "BlockName", "nodes": "Nodes", "blocksizes": "BlockSizes"}
_MOST = 16
"""Slurm joins at most 2^15 base blocks."""


def tree_of_blocks(
    blocks: Sequence[tuple[str, tuple[str, ...]]], sizes: Sequence[int], file: str, line: int = 0
) -> NodeTree:
    """Base blocks in order, and a level for each larger size, which joins consecutive blocks.

    Args:
        blocks: Name and nodes of each base block.
        sizes: `BlockSizes`: the base block size that Slurm counts by, and its multiples by powers of two; empty: the
            first block's size times 1, 2, 4, 8 and 16.
        file: Name for messages.
        line: Line of the sizes.

    Raises:
        InputError: A size is not such a multiple, a block is smaller than the base size, or a node is in two blocks.
    """
    if not blocks or not blocks[0][1]:
        raise InputError("there is no block with nodes in the file", file=file)
    sizes = list(sizes) or [len(blocks[0][1]) << step for step in range(5)]
    steps = sorted({_step(size, sizes[0], file, line) for size in sizes} | {0})
    small = next((name for name, nodes in blocks if 0 < len(nodes) < sizes[0]), None)
    if small:
        raise InputError(
            f"the block `{small}` has fewer nodes than the least size of blocks",
            file=file,
            line=line or None,
            allowed=f"at least {sizes[0]}",
        )
    owner: dict[str, int] = {}
    for number, (name, nodes) in enumerate(blocks):
        for node in nodes:
            if owner.setdefault(node, number) != number:
                raise InputError(f"the node `{node}` is in two blocks", file=file, found=f"`{name}` and another")
    names = sorted(owner, key=natural)
    base = np.array([owner[node] for node in names], np.int32)
    wide = [step for step in reversed(steps) if (len(blocks) - 1) >> step or step == 0]
    return NodeTree(
        tuple(names),
        np.ones(len(names), np.int32),
        tuple(f"block-x{1 << step}" if step else "block" for step in wide),
        tuple(base >> step for step in wide),
        tuple(
            tuple(
                ",".join(name for name, _ in blocks[first : first + (1 << step)])
                for first in range(0, len(blocks), 1 << step)
            )
            for step in wide
        ),
        block_sizes=tuple(sizes[0] << step for step in steps),
    )


def _step(size: int, base: int, file: str, line: int) -> int:
    times = size // base if base > 0 and size % base == 0 else 0
    if times < 1 or times & (times - 1) or times.bit_length() > _MOST:
        raise InputError(
            "a size of blocks is not a power of two of base blocks",
            file=file,
            line=line or None,
            found=str(size),
            allowed=f"{base} times 1, 2, 4, 8, ...",
        )
    return times.bit_length() - 1


def _read_blocks(text: str, file: str) -> NodeTree:
    blocks: list[tuple[str, tuple[str, ...]]] = []
    sizes: list[int] = []
    where = 0
    for line, pairs in lines_of(text, _BLOCK_KEYS, file):
        if "blocksizes" in pairs:
            sizes, where = [_number(word, file, line) for word in pairs["blocksizes"].split(",")], line
        elif "blockname" in pairs:
            if pairs["blockname"] in dict(blocks):
                raise InputError(f"the block `{pairs['blockname']}` appears twice", file=file, line=line)
            blocks.append((pairs["blockname"], names_of(pairs.get("nodes", ""), file, line)))
        else:
            raise InputError("a line has no BlockName", file=file, line=line)
    return tree_of_blocks(blocks, sizes, file, where)


def _number(word: str, file: str, line: int) -> int:
    if not re.fullmatch(r"[1-9]\d{0,8}", word):
        raise InputError("expected a number of nodes", file=file, line=line, found=word)
    return int(word)


def blocks_of(tree: NodeTree) -> tuple[list[tuple[str, list[str]]], list[int]]:
    """Base blocks with their nodes, and the sizes, from a tree's narrowest groups."""
    blocks = [
        (name or f"b{number}", [tree.names[node] for node in tree.members[-1][number]])
        for number, name in enumerate(tree.group_names[-1])
    ]
    least = int(tree.size[-1].min())
    return blocks, list(tree.block_sizes) or sorted({least, *(least << step for step in _steps(tree))})


def _steps(tree: NodeTree) -> list[int]:
    """For each wider level, as a power of two, the base blocks of its largest group."""
    count, steps = np.ones(len(tree.size[-1]), np.int64), []
    for parent in tree.parent[:0:-1]:
        count = np.bincount(parent, weights=count).astype(np.int64)
        steps.append((int(count.max()) - 1).bit_length())
    return steps


def _write_blocks(tree: NodeTree) -> str:
    if not tree.levels:
        raise InputError("a cluster without groups of nodes has no blocks", allowed="a topology with leafs or domains")
    blocks, sizes = blocks_of(tree)
    lines = [f"BlockName={name} Nodes={compress_hostlist(nodes)}" for name, nodes in blocks]
    return "\n".join([*lines, f"BlockSizes={','.join(map(str, sizes))}"]) + "\n"


topology_formats.enter(
    TopologyFormat(
        "slurm-block",
        "Slurm's topology/block",
        "topology.conf",
        lambda text: bool(re.search(r"^\s*BlockName=", text, re.MULTILINE | re.IGNORECASE)),
        _read_blocks,
        _write_blocks,
        source="Slurm 23.11 and later",
    ),
)


_NEWER = {
    "ring": "a ring, which Slurm has from 26.05 on",
    "torus3d": "a torus, which Slurm has from 26.05 on",
    "flat": "flat: there is nothing to place by",
}


def _read_yaml(text: str, file: str) -> NodeTree:
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


def _switch(node: Node) -> SwitchNode:
    one = _mapping(node)
    return SwitchNode(_text(one, "switch"), _names(one, "nodes"), _names(one, "children"), node.mark.line or 0)


def _block(node: Node) -> tuple[str, tuple[str, ...]]:
    one = _mapping(node)
    return _text(one, "block"), _names(one, "nodes")


def _count(node: Node) -> int:
    if not isinstance(node.value, int) or isinstance(node.value, bool) or node.value < 1:
        raise InputError.many([node.problem("expected a number of nodes", found=node.text)])
    return node.value


def _write_yaml(tree: NodeTree) -> str:
    lines = ["- topology: fabric", "  cluster_default: true", "  tree:", "    switches:"]
    for switch in switches_of(tree):
        key, below = ("nodes", switch.nodes) if switch.nodes else ("children", switch.children)
        lines += [f"      - switch: {switch.name}", f'        {key}: "{compress_hostlist(below)}"']
    if tree.levels:
        blocks, sizes = blocks_of(tree)
        lines += ["- topology: blocks", "  cluster_default: false", "  block:", "    block_sizes:"]
        lines += [f"      - {size}" for size in sizes]
        lines += ["    blocks:"]
        for name, nodes in blocks:
            lines += [f"      - block: {name}", f'        nodes: "{compress_hostlist(nodes)}"']
    return "\n".join(lines) + "\n"


topology_formats.enter(
    TopologyFormat(
        "slurm-yaml",
        "Slurm's topology.yaml: the tree, and its narrowest groups as blocks",
        "topology.yaml",
        lambda text: bool(re.search(r"^\s*-\s*topology:", text, re.MULTILINE)),
        _read_yaml,
        _write_yaml,
        source="Slurm 25.05 and later",
    ),
)
