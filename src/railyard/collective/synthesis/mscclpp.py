"""A schedule as an execution plan of MSCCL++, and a symbolic run of such a plan from its file alone.

A thread block puts pieces into the memory of one peer, or waits for those of one and adds them. Every directed edge has
a port channel at both ends: the receiver signals that it has begun, then the sender puts and signals, piece by piece.
What is to be added is put into a place of its own in the receiver's scratch memory, for nobody adds on the wire. Blocks
of a rank wait for one another by semaphores, one for each wait. `nop` is a barrier of the block's threads.

Format: microsoft/mscclpp, `docs/design/mscclpp-dsl-json-file.md` and the plans of its executor tests, 2026.

What is put is seen by the receiver only after a signal that it waits for; blocks run their operations in order; places
that are read before something is there are faults, and so is what is added twice.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.collective.synthesis.msccl import BufferLayout, messages
from railyard.collective.synthesis.msccl_run import RankBuffers

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from railyard.collective.synthesis.msccl import Message
    from railyard.collective.synthesis.network import LinkNetwork
    from railyard.collective.synthesis.schedule import TimedSchedule

    Op = dict[str, Any]
    Content = frozenset[tuple[int, int]]
    Place = tuple[int, str, int]


_NAMES = {
    "all-gather": "allgather",
    "reduce-scatter": "reducescatter",
    "all-reduce": "allreduce",
    "all-to-all": "alltoall",
}
MOST_IN_PLAN = 300_000
"""Messages: a plan has about 1 KB of each, 70 MB for the 69,432 of an all-gather of 264 ranks (6 s of CPU)."""
_LARGEST = (1 << 64) - 1
_CHANNEL = {"channel_ids": [0], "channel_type": "port"}
_BARRIER: Op = {"name": "nop"}


@dataclass
class _Block:
    """A thread block: the peer and the direction that its channel is of (none: it only copies), and its operations."""

    peer: int | None
    sends: bool
    ops: list[Op] = field(default_factory=list)
    buffers: list[tuple[int, str]] = field(default_factory=list)

    def buffer(self, rank: int, kind: str) -> int:
        """Number of a peer's buffer among those that the block knows."""
        if (rank, kind) not in self.buffers:
            self.buffers.append((rank, kind))
        return self.buffers.index((rank, kind))


@dataclass
class _Gpu:
    rank: int
    blocks: dict[tuple[str, int], _Block] = field(default_factory=dict)
    scratch: dict[int, int] = field(default_factory=dict)
    slots: int = 0
    semaphores: int = 0

    def block(self, kind: str, peer: int) -> _Block:
        """The block that sends to a peer or receives from it; first it waits for the peer, or lets it begin."""
        key = (kind, peer)
        if key not in self.blocks:
            self.blocks[key] = _Block(None if kind == "copy" else peer, kind == "send")
            if kind != "copy":
                self.blocks[key].ops += [{"name": "wait" if kind == "send" else "signal", **_CHANNEL}, _BARRIER]
        return self.blocks[key]

    def wait_for(self, after: _Block, before: _Block | None) -> None:
        """Lets a block go on only when another has come so far."""
        if before is None or before is after:
            return
        number, self.semaphores = self.semaphores, self.semaphores + 1
        before.ops.append({"name": "sem_release", "semaphore_ids": [number]})
        after.ops += [{"name": "sem_acquire", "semaphore_ids": [number]}, _BARRIER]


@dataclass
class _Arrivals:
    """What has come: of each message the block that received it; of each place the message that was added last."""

    block: dict[int, _Block] = field(default_factory=dict)
    added: dict[tuple[int, int], int] = field(default_factory=dict)


def mscclpp_json(
    network: LinkNetwork, schedule: TimedSchedule, collective: str, cut: int, *, keeps: bool = True
) -> str:
    """A schedule as the file that MSCCL++'s executor reads.

    Args:
        network: Of the schedule.
        schedule: Sound.
        collective: What it does.
        cut: Pieces of each part.
        keeps: Whether ranks have parts for themselves in an all-to-all; they have none in an uneven one.
    """
    layout = BufferLayout(collective, len(network.ranks), cut)
    gpus = [_Gpu(rank) for rank in range(layout.ranks)]
    arrivals = _Arrivals()
    for number, message in enumerate(messages(network, schedule)):
        _send(gpus, layout, message, arrivals)
        _receive(gpus, layout, message, arrivals, number)
    if collective == "all-to-all" and keeps:
        for rank, gpu in enumerate(gpus):
            for part in range(cut):
                offset = rank * cut + part
                gpu.block("copy", 0).ops.append(
                    {"name": "copy", "src_buff": [_local("i", offset)], "dst_buff": [_local("o", offset)]}
                )
    for gpu in gpus:
        for (kind, _), block in gpu.blocks.items():
            if kind == "send":
                block.ops.append({"name": "flush", **_CHANNEL})
    return json.dumps(_plan(layout, gpus), indent=1) + "\n"


def _send(gpus: list[_Gpu], layout: BufferLayout, message: Message, arrivals: _Arrivals) -> None:
    sender, taker = gpus[message.source], gpus[message.target]
    block = sender.block("send", message.target)
    for one in message.after:
        sender.wait_for(block, arrivals.block[one])
    source = layout.place(message.source, message.piece, sender.scratch, sent=True)
    buffer, offset = _landing(layout, message, taker)
    put = {
        "name": "put",
        "src_buff": [_local(*source)],
        "dst_buff": [{"buffer_id": block.buffer(message.target, buffer), "index": offset, "size": 1}],
        **_CHANNEL,
    }
    block.ops += [put, _BARRIER, {"name": "signal", **_CHANNEL}]


def _landing(layout: BufferLayout, message: Message, taker: _Gpu) -> tuple[str, int]:
    """Place of a piece; one to be added goes into a slot of the scratch memory of its own."""
    if message.reduce:
        return "s", taker.slots
    return layout.place(message.target, message.piece, taker.scratch, sent=False)


def _receive(gpus: list[_Gpu], layout: BufferLayout, message: Message, arrivals: _Arrivals, number: int) -> None:
    taker = gpus[message.target]
    block = taker.block("receive", message.source)
    block.ops += [{"name": "wait", **_CHANNEL}, _BARRIER]
    if message.reduce:
        key = (message.target, message.piece)
        if key in arrivals.added:
            taker.wait_for(block, arrivals.block[arrivals.added[key]])
        buffer, offset = layout.place(message.target, message.piece, taker.scratch, sent=False)
        add = {
            "name": "re",
            "src_buff": [_local(buffer, offset), _local("s", taker.slots)],
            "dst_buff": [_local(buffer, offset)],
            "reduce_op": "sum",
        }
        block.ops += [add, _BARRIER]
        taker.slots += 1
        arrivals.added[key] = number
    arrivals.block[number] = block


def _local(buffer: str, index: int) -> Op:
    return {"type": buffer, "index": index, "size": 1}


# ------------------------------------------------------------------------------------------------------------ writing


def _plan(layout: BufferLayout, gpus: list[_Gpu]) -> dict[str, Any]:
    return {
        "name": f"railyard-{layout.collective}",
        "collective": _NAMES[layout.collective],
        "protocol": "Simple",
        "inplace": layout.in_place,
        "reuse_resources": False,
        "gpus": [_gpu(layout, gpu) for gpu in gpus],
        "num_threads_per_block": 1024,
        "use_double_scratch_buffer": False,
        "buffer_alignment": 16,
        "min_message_size": 0,
        "max_message_size": _LARGEST,
    }


def _gpu(layout: BufferLayout, gpu: _Gpu) -> dict[str, Any]:
    inputs, outputs = layout.chunks
    edges = sorted({_edge(gpu.rank, block) for block in gpu.blocks.values() if block.peer is not None})
    buffers = sorted({buffer for block in gpu.blocks.values() for buffer in block.buffers})
    return {
        "id": gpu.rank,
        "input_chunks": inputs,
        "output_chunks": outputs,
        "scratch_chunks": max(gpu.slots, len(gpu.scratch)),
        "threadblocks": [
            _block(gpu, number, block, edges, buffers) for number, block in enumerate(gpu.blocks.values())
        ],
        "channels": [{"channel_type": "port", "connected_to": [_peer(gpu.rank, edge) for edge in edges]}],
        "remote_buffers": [{"rank": rank, "type": kind, "access_channel_types": ["port"]} for rank, kind in buffers],
        "semaphores": [{"init_value": 0}] * gpu.semaphores,
    }


def _edge(rank: int, block: _Block) -> tuple[int, int]:
    """The directed edge of a block's channel. Both ends sort theirs alike: channels of a pair are joined in order."""
    peer = rank if block.peer is None else block.peer
    return (rank, peer) if block.sends else (peer, rank)


def _peer(rank: int, edge: tuple[int, int]) -> int:
    return edge[1] if edge[0] == rank else edge[0]


def _block(
    gpu: _Gpu, number: int, block: _Block, edges: list[tuple[int, int]], buffers: list[tuple[int, str]]
) -> dict[str, Any]:
    channel = (
        [] if block.peer is None else [{"channel_type": "port", "channel_ids": [edges.index(_edge(gpu.rank, block))]}]
    )
    known = [buffers.index(buffer) for buffer in block.buffers]
    references = [{"access_channel_type": "port", "remote_buffer_ids": known}] if known else []
    return {"id": number, "ops": block.ops, "channels": channel, "remote_buffer_refs": references}


class _Run:
    """State of a run of a plan.

    Attributes:
        memory: Content by rank, buffer and index: parts, each a rank and an index of its input.
        put: Writes over each channel end that no signal has followed.
        signalled: Writes that each signal to a channel end brings, in order.
        tokens: Of semaphores, by rank and number.
        at: Next operation, by rank and block.
        problems: Messages about operations that broke a rule.
    """

    def __init__(self, plan: dict[str, Any], pieces: NDArray[np.int64] | None = None) -> None:
        self.pieces = pieces
        self.gpus = {gpu["id"]: gpu for gpu in plan["gpus"]}
        chunks = {max(gpu["input_chunks"], gpu["output_chunks"]) for gpu in plan["gpus"]}
        ranks = len(self.gpus)
        self.buffers = RankBuffers(plan["collective"], ranks, chunks.pop() // ranks, plan["inplace"])
        self.memory: dict[Place, Content] = self.buffers.inputs()
        self.put: dict[tuple[int, int], list[tuple[Place, Content]]] = defaultdict(list)
        self.signalled: dict[tuple[int, int], deque[list[tuple[Place, Content]]]] = defaultdict(deque)
        self.tokens: dict[tuple[int, int], int] = defaultdict(int)
        self.at: dict[tuple[int, int], int] = defaultdict(int)
        self.problems: list[str] = []
        self._ends = {rank: self._joined(rank) for rank in self.gpus}
        self._do: dict[str, Callable[[int, dict[str, Any], Op], bool]] = {
            "nop": lambda *_: True,
            "flush": lambda *_: True,
            "put": self._put,
            "signal": self._signal,
            "wait": self._wait,
            "copy": self._copy,
            "re": self._add,
            "sem_release": self._release,
            "sem_acquire": self._acquire,
        }

    def _joined(self, rank: int) -> list[tuple[int, int]]:
        """The other end of each port channel of a rank: the peer's channel of the same turn."""
        turn: dict[int, int] = defaultdict(int)
        found = []
        for peer in self._connected(rank):
            back = [at for at, other in enumerate(self._connected(peer)) if other == rank]
            found.append((peer, back[turn[peer]] if turn[peer] < len(back) else -1))
            turn[peer] += 1
        return found

    def _connected(self, rank: int) -> list[int]:
        every = (one for one in self.gpus[rank]["channels"] if one["channel_type"] == "port")
        return [peer for one in every for peer in one["connected_to"]]

    def go(self) -> list[str]:
        blocks = [(rank, block) for rank, gpu in self.gpus.items() for block in gpu["threadblocks"]]
        moved = True
        while moved and not self.problems:
            moved = False
            for rank, block in blocks:
                while self.at[rank, block["id"]] < len(block["ops"]) and not self.problems:
                    op = block["ops"][self.at[rank, block["id"]]]
                    if not self._do[op["name"]](rank, block, op):
                        break
                    self.at[rank, block["id"]] += 1
                    moved = True
        stuck = next((one for one in blocks if self.at[one[0], one[1]["id"]] < len(one[1]["ops"])), None)
        if stuck is not None and not self.problems:
            self.problems.append(f"rank {stuck[0]} waits forever in thread block {stuck[1]['id']}")
        return self.problems or list(
            self.buffers.missing(lambda place: self.memory.get(place, frozenset()), self.pieces)
        )

    def _channel(self, block: dict[str, Any], op: Op) -> int:
        listed = [one for one in block["channels"] if one["channel_type"] == op["channel_type"]]
        return int(listed[0]["channel_ids"][op["channel_ids"][0]])

    def _read(self, rank: int, buff: dict[str, Any]) -> list[Content | None]:
        return [
            self.memory.get(self.buffers.place(rank, buff["type"], buff["index"] + at)) for at in range(buff["size"])
        ]

    def _missing(self, rank: int, values: list[Content | None]) -> bool:
        if None in values:
            self.problems.append(f"rank {rank} reads where nothing is")
        return None in values

    def _put(self, rank: int, block: dict[str, Any], op: Op) -> bool:
        (source,), (target,) = op["src_buff"], op["dst_buff"]
        values = self._read(rank, source)
        if self._missing(rank, values):
            return False
        references = [one for one in block["remote_buffer_refs"] if one["access_channel_type"] == op["channel_type"]]
        remote = self.gpus[rank]["remote_buffers"][references[0]["remote_buffer_ids"][target["buffer_id"]]]
        channel = self._channel(block, op)
        if remote["rank"] != self._ends[rank][channel][0]:
            self.problems.append(f"rank {rank} puts into memory of {remote['rank']} over a channel to another")
        for at, value in enumerate(values):
            place = self.buffers.place(remote["rank"], remote["type"], target["index"] + at)
            self.put[rank, channel].append((place, value or frozenset()))
        return True

    def _signal(self, rank: int, block: dict[str, Any], op: Op) -> bool:
        channel = self._channel(block, op)
        self.signalled[self._ends[rank][channel]].append(self.put.pop((rank, channel), []))
        return True

    def _wait(self, rank: int, block: dict[str, Any], op: Op) -> bool:
        waiting = self.signalled[rank, self._channel(block, op)]
        if not waiting:
            return False
        self.memory.update(waiting.popleft())
        return True

    def _copy(self, rank: int, _block: dict[str, Any], op: Op) -> bool:
        (source,), (target,) = op["src_buff"], op["dst_buff"]
        values = self._read(rank, source)
        if self._missing(rank, values):
            return False
        for at, value in enumerate(values):
            self.memory[self.buffers.place(rank, target["type"], target["index"] + at)] = value or frozenset()
        return True

    def _add(self, rank: int, _block: dict[str, Any], op: Op) -> bool:
        (target,), total = op["dst_buff"], frozenset[tuple[int, int]]()
        for buff in op["src_buff"]:
            values = self._read(rank, buff)
            if self._missing(rank, values):
                return False
            value = values[0] or frozenset()
            if total & value:
                self.problems.append(f"rank {rank} adds a part of {target['type']} {target['index']} twice")
            total |= value
        self.memory[self.buffers.place(rank, target["type"], target["index"])] = total
        return True

    def _release(self, rank: int, _block: dict[str, Any], op: Op) -> bool:
        for number in op["semaphore_ids"]:
            self.tokens[rank, number] += 1
        return True

    def _acquire(self, rank: int, _block: dict[str, Any], op: Op) -> bool:
        if not all(self.tokens[rank, number] for number in op["semaphore_ids"]):
            return False
        for number in op["semaphore_ids"]:
            self.tokens[rank, number] -= 1
        return True


def faults(text: str, pieces: NDArray[np.int64] | None = None) -> list[str]:
    """What is wrong with a plan; nothing where every rank ends with what the collective promises.

    Args:
        text: Content of the plan file, JSON.
        pieces: int64[ranks, ranks], of an uneven all-to-all the chunks of each pair; None: all have as many.
    """
    return _Run(json.loads(text), pieces).go()


def read_plan(text: str) -> tuple[str, int, list[str]]:
    """The collective of a plan, its ranks, and what is wrong with it."""
    run = _Run(json.loads(text))
    return run.buffers.kind, run.buffers.ranks, run.go()
