"""Runs an MSCCL algorithm symbolically: thread blocks in order, messages in order, sums as sets of who is in them.

It reads nothing but the file, so that what was written is what is checked.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from collections.abc import Iterator

    Content = frozenset[tuple[int, int]]

_SUMMED = ("allreduce", "reduce_scatter")


@dataclass
class _Machine:
    """State of a run.

    Attributes:
        memory: Content by rank, buffer and offset: parts, each a rank and an offset of its input.
        wires: Messages under way by source, target and channel.
        done: Steps that are done, by rank and block.
        problems: What went wrong.
    """

    memory: dict[tuple[int, str, int], Content] = field(default_factory=dict)
    wires: dict[tuple[int, int, int], deque[Content]] = field(default_factory=lambda: defaultdict(deque))
    done: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    problems: list[str] = field(default_factory=list)


def faults(text: str) -> list[str]:
    """What is wrong with an algorithm; nothing where every rank ends with what the collective promises."""
    algo = ElementTree.fromstring(text)  # our own text: no entities
    machine = _Machine()
    ranks, kind = int(algo.attrib["ngpus"]), algo.attrib["coll"]
    cut = min(int(gpu.attrib[name]) for gpu in algo for name in ("i_chunks", "o_chunks"))
    cut = cut if kind in ("allgather", "reduce_scatter") else cut // ranks
    _fill(machine, kind, ranks, cut)
    blocks = {(int(gpu.attrib["id"]), int(block.attrib["id"])): (block, list(block)) for gpu in algo for block in gpu}
    while sum(_advanced(machine, at, *block) for at, block in blocks.items()) and not machine.problems:
        continue
    stuck = [at for at, (_, steps) in blocks.items() if machine.done[at] < len(steps)]
    if stuck and not machine.problems:
        machine.problems.append(f"rank {stuck[0][0]} waits for ever in thread block {stuck[0][1]}")
    return machine.problems or list(_wrong(machine, kind, ranks, cut))


def _fill(machine: _Machine, kind: str, ranks: int, cut: int) -> None:
    for rank in range(ranks):
        if kind == "allgather":
            offsets, buffer = range(rank * cut, (rank + 1) * cut), "o"
        else:
            offsets, buffer = range(ranks * cut), "i"
        machine.memory.update({(rank, buffer, offset): frozenset([(rank, offset)]) for offset in offsets})


def _advanced(
    machine: _Machine, at: tuple[int, int], block: ElementTree.Element, steps: list[ElementTree.Element]
) -> bool:
    """Runs the next step of a thread block; whether it could."""
    if machine.done[at] == len(steps):
        return False
    rank, step = at[0], steps[machine.done[at]]
    values = step.attrib
    if int(values["depid"]) >= 0 and machine.done[rank, int(values["depid"])] <= int(values["deps"]):
        return False
    peer, channel = (int(block.attrib[name]) for name in ("send", "chan"))
    source = (rank, values["srcbuf"], int(values["srcoff"]))
    target = (rank, values["dstbuf"], int(values["dstoff"]))
    if values["type"] in ("r", "rrc"):
        wire = machine.wires[int(block.attrib["recv"]), rank, channel]
        if not wire:
            return False
        _take(machine, wire.popleft(), target, add=values["type"] == "rrc")
    elif values["type"] in ("s", "cpy"):
        if source not in machine.memory:
            machine.problems.append(f"rank {rank} sends {source[1]} {source[2]} and has nothing there")
            return False
        if values["type"] == "s":
            machine.wires[rank, peer, channel].append(machine.memory[source])
        else:
            machine.memory[target] = machine.memory[source]
    machine.done[at] += 1
    return True


def _take(machine: _Machine, content: Content, target: tuple[int, str, int], *, add: bool) -> None:
    before = machine.memory.get(target, frozenset()) if add else frozenset()
    if before & content:
        machine.problems.append(f"rank {target[0]} adds a part of {target[1]} {target[2]} twice")
    machine.memory[target] = before | content


def _wrong(machine: _Machine, kind: str, ranks: int, cut: int) -> Iterator[str]:
    """Places that do not hold what they should at the end."""
    for rank in range(ranks):
        for at in range(ranks * cut):
            part, buffer = at // cut, "i" if kind in _SUMMED else "o"
            if kind == "reduce_scatter" and part != rank:
                continue
            wanted = frozenset((each, at) for each in range(ranks)) if kind in _SUMMED else frozenset([(part, at)])
            if kind == "alltoall":
                wanted = frozenset([(part, rank * cut + at % cut)])
            if machine.memory.get((rank, buffer, at)) != wanted:
                yield f"rank {rank} ends without chunk {at}"
