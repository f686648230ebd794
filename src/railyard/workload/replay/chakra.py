"""Reads Chakra execution traces: one file a rank (`name.0.et`, `name.1.et`, ...), nodes that compute and communicate.

Computation takes its measured time, sends meet receives by ranks and tag in order, and the n-th collective of a process
group is the n-th of that group on every rank that has it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.errors import InputError
from railyard.workload.replay.chakra_nodes import COLLECTIVE, RECV, SEND, Node
from railyard.workload.replay.chakra_nodes import read as read_nodes
from railyard.workload.replay.collective_flows import LAYOUTS, Collective
from railyard.workload.replay.flows import AT_RECEIVER, AT_SENDER, FlowBuilder, FlowTable
from railyard.workload.replay.text_file import MOST_HOSTS

if TYPE_CHECKING:
    from pathlib import Path

_PS_PER_US = 10**6
_NUMBERED = re.compile(r"(.*\.)(\d+)\.et")

NO_TIME = "computations without a measured time take none"
RINGS = (
    "collectives are rings, trees and direct sends in the order of ranks, whatever the library that was traced chose"
)


@dataclass(frozen=True)
class _Place:
    """Where a node stands: its rank and its row of local work, done when the node is done."""

    rank: int
    row: int
    node: Node


def read(path: Path) -> FlowTable:
    """The flows and local work of a trace.

    Args:
        path: The folder of the files, or any one of them; its ranks must be complete.

    Raises:
        InputError: A file cannot be read or is no trace, a rank is missing, or sends and receives do not match.
    """
    files = _files(path)
    ranks = [read_nodes(file) for file in files]
    builder = FlowBuilder(len(ranks))
    places = [
        {node.id: _Place(rank, builder.work(rank, _time(node)), node) for node in nodes}
        for rank, nodes in enumerate(ranks)
    ]
    begins: dict[int, int] = {}
    for rank in places:
        for place in rank.values():
            _begin(builder, place, rank, begins)
    try:
        _messages(builder, places, begins)
        _collectives(builder, places, begins)
    except InputError as error:
        raise error.located(file=path) from None
    builder.start_roots()
    idle = any(node.kind not in {SEND, RECV, COLLECTIVE} and not node.duration_us for nodes in ranks for node in nodes)
    return builder.build(left_out=(RINGS, NO_TIME) if idle else (RINGS,))


def _files(path: Path) -> list[Path]:
    """The files of all ranks, in order.

    Raises:
        InputError: There are none, or one is missing.
    """
    if path.is_dir():
        found = sorted(path.glob("*.et"))
        if not found:
            raise InputError("the folder holds no trace", file=path, allowed="files named <name>.<rank>.et")
        path = found[0]
    match = _NUMBERED.fullmatch(path.name)
    if match is None:
        return [path]
    stem = match[1]
    ranks: dict[int, Path] = {}
    for file in path.parent.iterdir():
        other = _NUMBERED.fullmatch(file.name)
        if other is not None and other[1] == stem:
            ranks[int(other[2])] = file
    missing = next((rank for rank in range(len(ranks)) if rank not in ranks), None)
    if missing is not None:
        raise InputError(f"the trace has no file of rank {missing}", file=path, allowed=f"{stem}{missing}.et")
    return [ranks[rank] for rank in range(len(ranks))]


def _time(node: Node) -> int:
    """Time of the node's own row: what it computes; communication has rows of its own."""
    return 0 if node.kind in {SEND, RECV, COLLECTIVE} else node.duration_us * _PS_PER_US


def _begin(builder: FlowBuilder, place: _Place, rank: dict[int, _Place], begins: dict[int, int]) -> None:
    """Lets a node wait for others: itself if it computes, else a row that its flows wait for."""
    waits = [(rank[other].row, AT_SENDER) for other in dict.fromkeys(place.node.after)]
    if place.node.kind in {SEND, RECV, COLLECTIVE}:
        begins[place.row] = builder.work(place.rank, 0)
        builder.wait(begins[place.row], waits)
        builder.wait(place.row, [(begins[place.row], AT_SENDER)])
    else:
        builder.wait(place.row, waits)


def _messages(builder: FlowBuilder, places: list[dict[int, _Place]], begins: dict[int, int]) -> None:
    """Joins sends and receives.

    Raises:
        InputError: One is left over, or names no rank.
    """
    sends: defaultdict[tuple[int, int, int], list[_Place]] = defaultdict(list)
    receives: defaultdict[tuple[int, int, int], list[_Place]] = defaultdict(list)
    high = len(places) - 1
    for place in (place for rank in places for place in rank.values()):
        node = place.node
        if node.kind == SEND:
            target = node.number("comm_dst", high=high)
            sends[place.rank, target, node.number("comm_tag", default=0)].append(place)
        elif node.kind == RECV:
            source = node.number("comm_src", high=high)
            receives[source, place.rank, node.number("comm_tag", default=0)].append(place)
    for key in {**sends, **receives}:
        source, target, tag = key
        if len(sends[key]) != len(receives[key]) or source == target:
            found = f"{len(sends[key])} sends, {len(receives[key])} receives"
            raise InputError(f"messages from rank {source} to rank {target} with tag {tag} do not match", found=found)
        for sent, got in zip(sends[key], receives[key], strict=True):
            flow = builder.add(source, target, max(1, sent.node.number("comm_size")))
            builder.wait(flow, [(begins[sent.row], AT_SENDER)])
            builder.wait(sent.row, [(flow, AT_SENDER)])
            builder.wait(got.row, [(flow, AT_RECEIVER)])


def _collectives(builder: FlowBuilder, places: list[dict[int, _Place]], begins: dict[int, int]) -> None:
    """Lays out the collectives of every process group.

    Raises:
        InputError: The ranks of a group do not agree.
    """
    groups: defaultdict[str, dict[int, list[_Place]]] = defaultdict(dict)
    for rank, nodes in enumerate(places):
        for place in nodes.values():
            if place.node.kind == COLLECTIVE:
                name = str(place.node.attributes.get("pg_name", ""))
                groups[name].setdefault(rank, []).append(place)
    for name, members in groups.items():
        counts = {len(collectives) for collectives in members.values()}
        if len(counts) > 1:
            raise InputError(
                f"ranks of the process group `{name}` run different numbers of collectives", found=sorted(counts)
            )
        for together in zip(*members.values(), strict=True):
            _collective(builder, list(together), begins)


def _collective(builder: FlowBuilder, places: list[_Place], begins: dict[int, int]) -> None:
    kinds = {place.node.number("comm_type", high=len(LAYOUTS) - 1) for place in places}
    sizes = {place.node.number("comm_size", default=0, high=MOST_HOSTS << 40) for place in places}
    if len(kinds) > 1 or len(sizes) > 1:
        names = ", ".join(f"node {place.node.id} of rank {place.rank}" for place in places[:2])
        raise InputError(
            "ranks disagree on a collective", found=f"{names}: types {sorted(kinds)}, sizes {sorted(sizes)}"
        )
    ranks = [place.rank for place in places]
    wanted = places[0].node.number("root_rank", default=ranks[0])
    root = ranks.index(wanted) if wanted in ranks else 0
    layout = Collective(builder, ranks, sizes.pop(), [begins[place.row] for place in places], root=root)
    if len(ranks) > 1:
        list(LAYOUTS.values())[kinds.pop()](layout)
    for place, waits in zip(places, layout.done, strict=True):
        builder.wait(place.row, waits[1:])
