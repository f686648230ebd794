"""`railyard place`: which nodes jobs get, by a scheduler's rule; `railyard topology`: a cluster in its words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from railyard.cli.messages import say
from railyard.cli.tables import Table, emit
from railyard.errors import InputError, did_you_mean
from railyard.files import read_text, write_text
from railyard.operate.formats.lists import nodes_of
from railyard.operate.free import Free
from railyard.operate.hostlist import compress
from railyard.operate.policy import policies
from railyard.operate.source import read_nodes
from railyard.operate.stream import play, read_stream
from railyard.operate.topology_file import formats

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.operate.stream import PlacedJob
    from railyard.operate.tree import NodeTree


def place(jobs: Path, *, nodes: Path, name: str | None, policy: str, busy: Path | None, as_json: bool) -> None:
    """Prints the nodes of every job of a table.

    Args:
        jobs: The table.
        nodes: The cluster: a scenario, a scheduler's file, a discovered fabric, a table of nodes.
        name: Its format; None: recognised.
        policy: The rule.
        busy: A list of nodes that are taken already.
        as_json: One list of names a job, empty where it waits, in the order of the table.

    Raises:
        InputError: A file or a name is wrong.
    """
    tree = read_nodes(nodes, name)
    rule = policies.get(policy)
    free = Free(tree)
    if busy is not None:
        free.out(_numbers(tree, busy))
    placed = play(read_stream(jobs, tree), free, rule)
    if as_json:
        names = [[] if one.nodes is None else [tree.names[node] for node in one.nodes] for one in placed]
        emit(json.dumps(names, ensure_ascii=False))
        return
    _print(tree, placed)
    waiting = sum(one.nodes is None for one in placed)
    emit("")
    emit(f"{len(placed) - waiting} of {len(placed)} jobs placed by {rule.name}, {free.idle} of {tree.nodes} nodes left")


def _numbers(tree: NodeTree, path: Path) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
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


def _print(tree: NodeTree, placed: list[PlacedJob]) -> None:
    table = Table(
        ["job", "wanted", *(f"{level}s" for level in tree.levels), "nodes"], right=range(1, 2 + len(tree.levels))
    )
    for one in placed:
        if one.nodes is None:
            table.add(one.job, str(one.request.nodes), *["-"] * len(tree.levels), "waits")
            continue
        spread = [str(len(np.unique(group[one.nodes]))) for group in tree.group]
        table.add(one.job, str(one.request.nodes), *spread, compress(tree.names[node] for node in one.nodes))
    table.print()


def topology(source: Path, *, name: str | None, target: str | None, names: Path | None, out: Path | None) -> None:
    """Prints what nodes hang together, or writes it as a scheduler reads it.

    Args:
        source: A scenario, or a file of a format that is known.
        name: Its format; None: recognised.
        target: The format to write; None: a table of levels for people.
        names: A list of nodes in the order of a scenario's servers.
        out: Where to; None: stdout.

    Raises:
        InputError: A file or a name is wrong, or the format cannot say what is there.
    """
    tree = read_nodes(source, name, names)
    if target is None:
        table = Table(["level", "groups", "nodes in each", "first"], right=[1])
        for level, size in zip(tree.levels, tree.size, strict=True):
            spread = f"{size.min()}" if size.min() == size.max() else f"{size.min()} to {size.max()}"
            table.add(level, str(len(size)), spread, tree.group_names[tree.levels.index(level)][0])
        table.add("node", str(tree.nodes), f"{tree.total} accelerators in all", tree.names[0])
        table.print()
        return
    record = formats.get(target)
    if record.write is None:
        writable = [one.name for _, one in formats.items() if one.write]
        raise InputError(f"`{target}` is only read", key="--as", found=target, allowed=writable)
    text = record.write(tree)
    if out is None:
        emit(text.rstrip("\n"))
        return
    write_text(out, text)
    say(f"wrote {out} ({record.filename}: {record.summary})")
