"""A schedule as an MSCCL algorithm: thread blocks of every rank with their steps, as its interpreter in NCCL runs them.

A thread block sends to one rank or receives from one, in order. `s` sends, `r` receives, `rrc` receives and adds, `cpy`
copies, `nop` only waits; a step waits for one step of another block (`depid`, `deps`), which says so (`hasdep`). What
passes switches goes from rank to rank. Steps are listed in the order in which their messages leave, in which all of
them can run. Format: microsoft/msccl-tools, `msccl/language/ir.py`, 2023.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

if TYPE_CHECKING:
    from railyard.collective.synthesis.network import LinkNetwork
    from railyard.collective.synthesis.schedule import TimedSchedule

    Place = tuple[str, int]


_NAMES = {
    "all-gather": "allgather",
    "reduce-scatter": "reduce_scatter",
    "all-reduce": "allreduce",
    "all-to-all": "alltoall",
}
_NONE = -1
MOST_MESSAGES = 1_100_000
"""Most messages of a schedule that is played or written: the 1,047,552 of an all-gather of 1,024 ranks take 49 s of
CPU, 3.4 GB and a file of 260 MB to write."""


def least_messages(collective: str, ranks: int) -> int:
    """Messages of any schedule whose parts are not cut: every rank gets from every other, or its part on a relay."""
    return ranks * (ranks - 1) * (2 if collective == "all-reduce" else 1)


@dataclass(frozen=True)
class Message:
    """A piece from rank to rank.

    Attributes:
        source, target: Numbers of ranks, from 0.
        reduce: Whether the target adds it.
        after: Messages that have to have come to the source.
    """

    source: int
    target: int
    piece: int
    reduce: bool
    after: tuple[int, ...]


def messages(network: LinkNetwork, schedule: TimedSchedule) -> list[Message]:
    """The sends of a schedule from rank to rank, in the order in which they leave."""
    sends, rank = schedule.sends, {node: number for number, node in enumerate(network.ranks)}
    first = np.arange(len(sends))
    for send in range(len(sends)):  # what leaves a switch began where what came to it began
        if network.switch[network.source[sends.link[send]]]:
            first[send] = first[sends.after[sends.after_ptr[send]]]
    ends = np.flatnonzero(~network.switch[network.target[sends.link]])
    order = ends[np.lexsort((ends, schedule.start_us[first[ends]]))]
    number = {int(send): at for at, send in enumerate(order)}
    found = []
    for send in order.tolist():
        begin = int(first[send])
        waits = sends.after[sends.after_ptr[begin] : sends.after_ptr[begin + 1]].tolist()
        source, target = network.source[sends.link[begin]], network.target[sends.link[send]]
        after = tuple(number[one] for one in waits)
        found.append(
            Message(rank[int(source)], rank[int(target)], int(sends.piece[send]), bool(sends.reduce[send]), after)
        )
    return found


@dataclass
class _Step:
    kind: str
    source: Place
    target: Place
    wait: tuple[int, int] | None = None
    waited: bool = False


@dataclass
class _Gpu:
    """Thread blocks of a rank by what they do: `("send", peer)`, `("receive", peer)`, `("copy", 0)`."""

    blocks: dict[tuple[str, int], list[_Step]] = field(default_factory=dict)
    scratch: dict[int, int] = field(default_factory=dict)

    def block(self, kind: str, peer: int) -> tuple[int, list[_Step]]:
        steps = self.blocks.setdefault((kind, peer), [])
        return list(self.blocks).index((kind, peer)), steps


@dataclass(frozen=True)
class BufferLayout:
    """Places of pieces in the buffers of ranks.

    Attributes:
        cut: Pieces of each part.
    """

    collective: str
    ranks: int
    cut: int

    @property
    def chunks(self) -> tuple[int, int]:
        """Chunks of the input and of the output of a rank."""
        every = self.ranks * self.cut
        return {"all-gather": (self.cut, every), "reduce-scatter": (every, self.cut)}.get(
            self.collective, (every, every)
        )

    @property
    def in_place(self) -> bool:
        """Whether input and output share their memory."""
        return self.collective != "all-to-all"

    def ends(self, piece: int) -> tuple[int, int]:
        """Source and target of a piece of an all-to-all."""
        at = piece % (self.ranks * (self.ranks - 1))
        shift, source = divmod(at, self.ranks)
        return source, (source + shift + 1) % self.ranks

    def place(self, rank: int, piece: int, scratch: dict[int, int], *, sent: bool) -> Place:
        """Buffer and offset of a piece at a rank."""
        if self.collective != "all-to-all":
            offset = piece % self.ranks * self.cut + piece // self.ranks
            return ("o" if self.collective == "all-gather" else "i"), offset
        source, target = self.ends(piece)
        part = piece // (self.ranks * (self.ranks - 1))
        if sent and rank == source:
            return "i", target * self.cut + part
        if rank == target:
            return "o", source * self.cut + part
        return "s", scratch.setdefault(piece, len(scratch))


def msccl_xml(network: LinkNetwork, schedule: TimedSchedule, collective: str, cut: int, *, keeps: bool = True) -> str:
    """A schedule as the file that MSCCL's interpreter reads.

    Args:
        network: Of the schedule.
        schedule: Sound.
        collective: What it does.
        cut: Pieces of each part.
        keeps: Whether ranks have parts for themselves in an all-to-all; they have none in an uneven one.
    """
    layout = BufferLayout(collective, len(network.ranks), cut)
    gpus = [_Gpu() for _ in network.ranks]
    received: list[tuple[int, int]] = []
    added: dict[tuple[int, int], tuple[int, int]] = {}
    for message in messages(network, schedule):
        sender, taker = gpus[message.source], gpus[message.target]
        source = layout.place(message.source, message.piece, sender.scratch, sent=True)
        target = layout.place(message.target, message.piece, taker.scratch, sent=False)
        _append(sender, ("send", message.target), _Step("s", source, source), [received[one] for one in message.after])
        key = (message.target, message.piece)
        waits = [added[key]] if message.reduce and key in added else []
        kind = "rrc" if message.reduce else "r"
        received.append(_append(taker, ("receive", message.source), _Step(kind, target, target), waits))
        if message.reduce:
            added[key] = received[-1]
    if collective == "all-to-all" and keeps:
        for rank, gpu in enumerate(gpus):
            for part in range(cut):
                offset = rank * cut + part
                _append(gpu, ("copy", 0), _Step("cpy", ("i", offset), ("o", offset)), [])
    return _text(layout, gpus)


def _append(gpu: _Gpu, block: tuple[str, int], step: _Step, waits: list[tuple[int, int]]) -> tuple[int, int]:
    """Adds a step; all that it waits for but the last in steps of their own, for one has room for one."""
    number, steps = gpu.block(*block)
    waits = [wait for wait in dict.fromkeys(waits) if wait[0] != number]
    steps += [_Step("nop", ("i", _NONE), ("o", _NONE), wait) for wait in waits[:-1]]
    step.wait = waits[-1] if waits else None
    steps.append(step)
    every = list(gpu.blocks.values())
    for other, at in waits:
        every[other][at].waited = True
    return number, len(steps) - 1


def _text(layout: BufferLayout, gpus: list[_Gpu]) -> str:
    inputs, outputs = layout.chunks
    algo = ElementTree.Element(
        "algo",
        name=f"railyard-{layout.collective}",
        proto="Simple",
        nchannels="1",
        nchunksperloop=str(max(inputs, outputs)),
        ngpus=str(layout.ranks),
        coll=_NAMES[layout.collective],
        inplace=str(int(layout.in_place)),
        outofplace=str(int(not layout.in_place)),
        minBytes="0",
        maxBytes="0",
    )
    for rank, gpu in enumerate(gpus):
        of_gpu = ElementTree.SubElement(
            algo,
            "gpu",
            {"id": str(rank), "i_chunks": str(inputs), "o_chunks": str(outputs), "s_chunks": str(len(gpu.scratch))},
        )
        for number, ((kind, peer), steps) in enumerate(gpu.blocks.items()):
            send, receive = (peer if kind == what else _NONE for what in ("send", "receive"))
            block = ElementTree.SubElement(
                of_gpu, "tb", {"id": str(number), "send": str(send), "recv": str(receive), "chan": "0"}
            )
            for at, step in enumerate(steps):
                _step(block, at, step)
    ElementTree.indent(algo)
    return ElementTree.tostring(algo, encoding="unicode") + "\n"


def _step(block: ElementTree.Element, at: int, step: _Step) -> None:
    depid, deps = step.wait or (_NONE, _NONE)
    values = {
        "s": at,
        "type": step.kind,
        "srcbuf": step.source[0],
        "srcoff": step.source[1],
        "dstbuf": step.target[0],
        "dstoff": step.target[1],
        "cnt": 0 if step.kind == "nop" else 1,
        "depid": depid,
        "deps": deps,
        "hasdep": int(step.waited),
    }
    ElementTree.SubElement(block, "step", {name: str(value) for name, value in values.items()})
