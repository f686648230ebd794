"""Runs an execution plan of MSCCL++ symbolically: it reads the file alone, with the numbers by which that names things.

What is put is seen by the receiver only after a signal that it waits for; blocks run their operations in order; places
that are read before something is there are faults, and so is what is added twice.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from railyard.collective.synthesis.msccl_run import RankBuffers

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    Content = frozenset[tuple[int, int]]
    Place = tuple[int, str, int]
    Op = dict[str, Any]


class _Run:
    """A run.

    Attributes:
        memory: Content by rank, buffer and index: parts, each a rank and an index of its input.
        put: Writes over each channel end that no signal has followed.
        signalled: Writes that each signal to a channel end brings, in order.
        tokens: Of semaphores, by rank and number.
        at: Next operation, by rank and block.
        problems: What went wrong.
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
        text: Of the file.
        pieces: int64[ranks, ranks], of an uneven all-to-all the chunks of each pair; None: all have as many.
    """
    return _Run(json.loads(text), pieces).go()


def read(text: str) -> tuple[str, int, list[str]]:
    """The collective of a plan, its ranks, and what is wrong with it."""
    run = _Run(json.loads(text))
    return run.buffers.kind, run.buffers.ranks, run.go()
