"""Plain lists: node names, and tables with a column per switch level, such as Lingjun's."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard.kit.table import Table
from railyard.work.operate.formats.slurm import names_of
from railyard.work.operate.topology_file import TopologyFormat, topology_formats
from railyard.work.operate.tree import NodeTree

if TYPE_CHECKING:
    from collections.abc import Sequence

_NODE = ("node", "ip", "host", "hostname", "name")
_NAME = re.compile(r"\w[\w.:/-]*")
_GPUS = ("accelerators", "gpus", "num_gpus")


def nodes_of(text: str, file: str) -> list[str]:
    """Node names: one or several per line, with brackets; `#` begins a comment.

    Raises:
        InputError: The list is empty, or an entry is not a name.
    """
    names = [
        name
        for number, line in enumerate(text.splitlines(), 1)
        for name in names_of(line.split("#", 1)[0].strip(), file, number)
    ]
    if not names:
        raise InputError("there is no node in the file", file=file)
    wrong = next((name for name in names if not _NAME.fullmatch(name)), None)
    if wrong is not None:
        raise InputError(
            "that is not a node name",
            file=file,
            found=wrong[:80],
            allowed="letters, digits, - _ . : /",
        )
    return names


def _read_names(text: str, file: str) -> NodeTree:
    return NodeTree.listed(nodes_of(text, file), 1, [])


def _read_table(text: str, file: str) -> NodeTree:
    read = Table(text, file)
    node = next((name for name in read.columns if name.lower() in _NODE), None)
    if node is None:
        found = ", ".join(read.columns)
        raise InputError("no column names the nodes", file=file, line=read.line, found=found, allowed=_NODE)
    counts = next((name for name in read.columns if name.lower() in _GPUS), None)
    levels = [name for name in read.columns if name not in (node, counts)]
    rows = list(read)
    for row in rows:
        empty = next((name for name in read.columns if not row[name]), None)
        if empty is not None:
            raise row.wrong(empty, "the cell is empty")
    each = 1 if counts is None else np.array([row.integer(counts, low=1, high=1024) for row in rows])
    groups = [(name.lower(), [row[name] for row in rows]) for name in levels]
    return NodeTree.listed([row[node] for row in rows], each, groups)


def _is_table(text: str) -> bool:
    cells = [cell.strip().lower() for cell in text.split("\n", 1)[0].split(",")]
    return len(cells) > 1 and any(cell in _NODE for cell in cells)


def _write_table(tree: NodeTree) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["node", *tree.levels, "accelerators"])
    for number, name in enumerate(tree.names):
        groups: Sequence[str] = [
            tree.group_names[level][tree.group[level][number]] for level in range(len(tree.levels))
        ]
        writer.writerow([name, *groups, int(tree.accelerators[number])])
    return out.getvalue()


topology_formats.enter(
    TopologyFormat(
        "table",
        "A CSV with a column `node`, one for every level from the widest, and accelerators if need be",
        "nodes.csv",
        _is_table,
        _read_table,
        _write_table,
        source="such as Alibaba's Lingjun topology (ip, DSW, PSW, ASW)",
    ),
)
topology_formats.enter(
    TopologyFormat(
        "names",
        "Names of nodes, without the topology",
        "nodes.txt",
        lambda text: not _is_table(text) and not set("=:{") & set(text),
        _read_names,
        lambda tree: "\n".join(tree.names) + "\n",
    ),
)
