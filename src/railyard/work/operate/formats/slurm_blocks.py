"""Slurm's `topology.conf` of blocks (topology/block, from 23.11 on)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.asbuilt.discovery import natural
from railyard.kit.errors import InputError
from railyard.work.operate.formats.slurm_conf import lines_of, names_of
from railyard.work.operate.hostlist import compress
from railyard.work.operate.topology_file import TopologyFormat, formats
from railyard.work.operate.tree import NodeTree

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEYS = {"blockname": "BlockName", "nodes": "Nodes", "blocksizes": "BlockSizes"}
_MOST = 16
"""Slurm joins at most 2 to the 15 base blocks."""


def tree_of_blocks(
    blocks: Sequence[tuple[str, tuple[str, ...]]], sizes: Sequence[int], file: str, line: int = 0
) -> NodeTree:
    """Base blocks in their order, and a level for each wider size, of neighbours in that order.

    Args:
        blocks: Name and nodes of each base block.
        sizes: `BlockSizes`: nodes of a base block by which Slurm counts, and its multiples by powers of two; empty:
            as the first block has, times 1, 2, 4, 8 and 16.
        file: For messages.
        line: Where the sizes stand.

    Raises:
        InputError: A size is no such multiple, a block has fewer nodes than the least size, or a node is in two blocks.
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
            "a size of blocks is no power of two of base blocks",
            file=file,
            line=line or None,
            found=str(size),
            allowed=f"{base} times 1, 2, 4, 8, ...",
        )
    return times.bit_length() - 1


def _read(text: str, file: str) -> NodeTree:
    blocks: list[tuple[str, tuple[str, ...]]] = []
    sizes: list[int] = []
    where = 0
    for line, pairs in lines_of(text, _KEYS, file):
        if "blocksizes" in pairs:
            sizes, where = [_number(word, file, line) for word in pairs["blocksizes"].split(",")], line
        elif "blockname" in pairs:
            if pairs["blockname"] in dict(blocks):
                raise InputError(f"the block `{pairs['blockname']}` is there twice", file=file, line=line)
            blocks.append((pairs["blockname"], names_of(pairs.get("nodes", ""), file, line)))
        else:
            raise InputError("a line has no BlockName", file=file, line=line)
    return tree_of_blocks(blocks, sizes, file, where)


def _number(word: str, file: str, line: int) -> int:
    if not re.fullmatch(r"[1-9]\d{0,8}", word):
        raise InputError("expected a number of nodes", file=file, line=line, found=word)
    return int(word)


def blocks_of(tree: NodeTree) -> tuple[list[tuple[str, list[str]]], list[int]]:
    """Base blocks with their nodes, and sizes, as a tree's narrowest groups give them."""
    blocks = [
        (name or f"b{number}", [tree.names[node] for node in tree.members[-1][number]])
        for number, name in enumerate(tree.group_names[-1])
    ]
    least = int(tree.size[-1].min())
    return blocks, list(tree.block_sizes) or sorted({least, *(least << step for step in _steps(tree))})


def _steps(tree: NodeTree) -> list[int]:
    """For each wider level, as a power of two, base blocks of its largest group."""
    count, steps = np.ones(len(tree.size[-1]), np.int64), []
    for parent in tree.parent[:0:-1]:
        count = np.bincount(parent, weights=count).astype(np.int64)
        steps.append((int(count.max()) - 1).bit_length())
    return steps


def _write(tree: NodeTree) -> str:
    if not tree.levels:
        raise InputError("a cluster without groups of nodes has no blocks", allowed="a topology with leafs or domains")
    blocks, sizes = blocks_of(tree)
    lines = [f"BlockName={name} Nodes={compress(nodes)}" for name, nodes in blocks]
    return "\n".join([*lines, f"BlockSizes={','.join(map(str, sizes))}"]) + "\n"


formats.add(
    "slurm-block",
    TopologyFormat(
        "slurm-block",
        "Slurm's topology/block",
        "topology.conf",
        lambda text: bool(re.search(r"^\s*BlockName=", text, re.MULTILINE | re.IGNORECASE)),
        _read,
        _write,
        source="Slurm 23.11 and later",
    ),
)
