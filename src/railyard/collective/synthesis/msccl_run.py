"""Runs an MSCCL algorithm symbolically: thread blocks in order, messages in order, sums as sets of who is in them.

It reads nothing but the file, so that what was written is what is checked, and what others wrote can be played by our
engines: the messages that it sees are a schedule. Format: microsoft/msccl-tools, `msccl/language/ir.py`, 2023.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from railyard.collective.algorithm import Schedule, Send, empty_chunks
from railyard.collective.policy import PROTOCOLS
from railyard.graph import CollectiveKind
from railyard.kit.errors import InputError, SimulationError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Content = frozenset[tuple[int, int]]
    Place = tuple[int, str, int]


KINDS = {
    "allgather": CollectiveKind.ALL_GATHER,
    "reduce_scatter": CollectiveKind.REDUCE_SCATTER,
    "allreduce": CollectiveKind.ALL_REDUCE,
    "alltoall": CollectiveKind.ALL_TO_ALL,
}
_SUMMED = ("allreduce", "reducescatter")
_RECEIVES = ("r", "rcs", "rrc", "rrs", "rrcs")
_ADDS = ("rrc", "rrs", "rrcs", "re")
_SENDS = ("s", "rcs", "rrs", "rrcs")
_TYPES = ("nop", "s", "r", "rcs", "rrc", "rrs", "rrcs", "cpy", "re")
MOST_RANKS = 4096


@dataclass(frozen=True)
class BlockStep:
    """A step of a thread block, as the file has it."""

    kind: str
    source: tuple[str, int]
    target: tuple[str, int]
    count: int
    wait: tuple[int, int]


@dataclass(frozen=True)
class ThreadBlock:
    """A thread block.

    Attributes:
        number: Which of the rank's.
        to, of: Ranks to which it sends and from which it receives; -1: none.
        channel: Messages of one channel between two ranks come in order.
    """

    rank: int
    number: int
    to: int
    of: int
    channel: int
    steps: tuple[BlockStep, ...]


@dataclass(frozen=True)
class RankBuffers:
    """Inputs and outputs of the ranks of a collective, in chunks.

    Attributes:
        kind: `allgather` and so on.
        cut: Chunks of a rank's part.
        in_place: Whether inputs lie where outputs do.
    """

    kind: str
    ranks: int
    cut: int
    in_place: bool

    @property
    def word(self) -> str:
        """The collective as MSCCL++ spells it."""
        return self.kind.replace("_", "")

    def place(self, rank: int, buffer: str, offset: int) -> Place:
        """Place of a chunk, with one name for what two buffers share."""
        shared = {("allgather", "i"): "o", ("reducescatter", "o"): "i", ("allreduce", "o"): "i"}
        other = shared.get((self.word, buffer)) if self.in_place else None
        if other is None:
            return rank, buffer, offset
        return rank, other, offset if self.word == "allreduce" else rank * self.cut + offset

    def inputs(self) -> dict[Place, Content]:
        """Initial buffers of the ranks."""
        own = self.word == "allgather"
        return {
            self.place(rank, "i", at): frozenset([(rank, at + (rank * self.cut if own else 0))])
            for rank in range(self.ranks)
            for at in range(self.cut if own else self.cut * self.ranks)
        }

    def missing(self, content: Callable[[Place], Content], pieces: Ints | None) -> Iterator[str]:
        """Places that do not hold what they should at the end.

        Args:
            content: Of a place.
            pieces: int64[ranks, ranks], of an uneven all-to-all the chunks of each pair; None: all have as many.
        """
        cut, scattered = self.cut, self.word == "reducescatter"
        for rank in range(self.ranks):
            for at in range(cut if scattered else cut * self.ranks):
                if pieces is not None and at % cut >= pieces[at // cut, rank]:
                    continue
                chunk = rank * cut + at if scattered else at
                wanted = frozenset([(at // cut, rank * cut + at % cut if self.word == "alltoall" else at)])
                if self.word in _SUMMED:
                    wanted = frozenset((each, chunk) for each in range(self.ranks))
                if content(self.place(rank, "o", at)) != wanted:
                    yield f"rank {rank} ends without chunk {chunk}"


@dataclass(frozen=True)
class MscclAlgorithm(RankBuffers):
    """An algorithm.

    Attributes:
        name: What it is called.
        protocol: Which it is for, in small letters; empty: any.
        blocks: All thread blocks.
    """

    name: str
    protocol: str
    blocks: tuple[ThreadBlock, ...]


@dataclass
class _Message:
    """What is under way: contents, messages that had to come before, whether the receiver adds it."""

    source: int
    target: int
    contents: list[Content]
    depth: int
    adds: bool = False


@dataclass
class _Machine:
    """State of a run.

    Attributes:
        memory: Content by place: parts, each a rank and an offset of its input; and how many messages deep it is.
        wires: Messages under way by source, target and channel.
        done: Steps that are done, by rank and block.
        sent: All messages, in the order in which they left.
        problems: Messages about steps that broke a rule.
    """

    memory: dict[Place, tuple[Content, int]] = field(default_factory=dict)
    wires: dict[tuple[int, int, int], deque[_Message]] = field(default_factory=lambda: defaultdict(deque))
    done: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    sent: list[_Message] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def spoken(text: str) -> tuple[str, ...]:
    """The protocols of an algorithm: the one that it names, or all."""
    found = parse_program(text).protocol
    return (found,) if found in PROTOCOLS else PROTOCOLS


def schedule_of(text: str, pieces: Ints | None = None) -> Schedule:
    """The messages of an algorithm as a schedule: those of one step need nothing of each other.

    Args:
        text: What such a file holds.
        pieces: int64[ranks, ranks], of an uneven all-to-all the chunks of each pair; None: all have as many.

    Raises:
        InputError: It is no algorithm, or does not do what it says.
    """
    program = parse_program(text)
    machine, found = _run(program, pieces)
    if found:
        raise InputError(f"the algorithm does not do what it says: {found[0]}", key="algo", found=program.name)
    steps: dict[int, list[Send]] = defaultdict(list)
    for message in machine.sent:
        chunks = tuple(_chunk(program, content) for content in message.contents)
        steps[message.depth].append(Send(message.source, message.target, chunks, message.adds))
    every = program.ranks * program.cut
    total = every * program.ranks if program.kind == "alltoall" else every
    owner = tuple(at // program.cut for at in range(every)) if program.kind in ("allgather", "reduce_scatter") else ()
    schedule = Schedule(
        KINDS[program.kind],
        program.ranks,
        total,
        tuple(tuple(steps[at]) for at in sorted(steps)),
        owner,
        frozenset() if pieces is None else empty_chunks(pieces),
    )
    try:
        schedule.run()
    except SimulationError as error:
        raise InputError(
            f"the messages of the algorithm alone are not a schedule: {error}", key="algo", found=program.name
        ) from None
    return schedule


def faults(text: str, pieces: Ints | None = None) -> list[str]:
    """What is wrong with an algorithm; nothing where every rank ends with what the collective promises.

    Args:
        text: Content of the algorithm file, XML.
        pieces: int64[ranks, ranks], of an uneven all-to-all the chunks of each pair; None: all have as many.
    """
    return _run(parse_program(text), pieces)[1]


def _chunk(program: MscclAlgorithm, content: Content) -> int:
    """The number of what a message carries, as `Schedule` counts chunks."""
    rank, at = next(iter(content))
    if program.kind == "alltoall":
        return rank * program.ranks * program.cut + at
    return at


# ------------------------------------------------------------------------------------------------------------ reading


def parse_program(text: str) -> MscclAlgorithm:
    """Reads a program from a file's text.

    Raises:
        InputError: Names what is missing or wrong.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError("an MSCCL algorithm declares no entities", found="<!DOCTYPE", allowed="<algo ...> alone")
    try:
        algo = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError("this is not XML", line=error.position[0], found=str(error)) from None
    if algo.tag != "algo":
        raise InputError("this is not an MSCCL algorithm", found=f"<{algo.tag}>", allowed="<algo>")
    kind, ranks = _word(algo, "coll", tuple(KINDS)), _number(algo, "ngpus", 2, MOST_RANKS)
    gpus = list(algo)
    if sorted(_number(gpu, "id", 0, ranks - 1) for gpu in gpus) != list(range(ranks)):
        raise InputError("expected one <gpu> for each rank", key="gpu", found=len(gpus), allowed=ranks)
    in_place = algo.attrib.get("inplace", "0") == "1"
    name = algo.attrib.get("name", "msccl")
    protocol = algo.attrib.get("proto", "").lower()
    return MscclAlgorithm(kind, ranks, _cut(gpus, kind, ranks), in_place, name, protocol, tuple(_blocks(gpus, ranks)))


def _cut(gpus: list[ElementTree.Element], kind: str, ranks: int) -> int:
    """Chunks of each rank's part, from the chunks of inputs or outputs that hold all parts."""
    key = "i_chunks" if kind == "reduce_scatter" else "o_chunks"
    # in place some writers give the shared buffer one of its names only
    sizes = {max(_number(gpu, key, 0, 1 << 24), _number(gpu, "i_chunks", 0, 1 << 24)) for gpu in gpus}
    size = sizes.pop()
    if sizes or size < ranks or size % ranks:
        raise InputError("chunks are not a multiple of the ranks, the same for each", key=key, found=size)
    return size // ranks


def _blocks(gpus: list[ElementTree.Element], ranks: int) -> Iterator[ThreadBlock]:
    for gpu in gpus:
        rank = int(gpu.attrib["id"])
        for element in gpu:
            to, of = (_number(element, name, -1, ranks - 1) for name in ("send", "recv"))
            steps = tuple(map(_step, element))
            number = _number(element, "id", 0, 1 << 16)
            yield ThreadBlock(rank, number, to, of, _number(element, "chan", 0, 1 << 16), steps)


def _step(element: ElementTree.Element) -> BlockStep:
    kind = _word(element, "type", _TYPES)
    none = kind == "nop"
    source, target = (
        ("i", -1) if none else (_word(element, f"{end}buf", ("i", "o", "s")), _number(element, f"{end}off", 0, 1 << 24))
        for end in ("src", "dst")
    )
    count = 0 if none else _number(element, "cnt", 1, 1 << 16)
    wait = _number(element, "depid", -1, 1 << 16), _number(element, "deps", -1, 1 << 24)
    return BlockStep(kind, source, target, count, wait)


def _word(element: ElementTree.Element, name: str, allowed: tuple[str, ...]) -> str:
    found = element.attrib.get(name, "")
    if found not in allowed:
        raise InputError(
            f"<{element.tag}> has no such `{name}`",
            key=name,
            found=found,
            allowed=allowed,
            hint=did_you_mean(found, allowed),
        )
    return found


def _number(element: ElementTree.Element, name: str, least: int, most: int) -> int:
    text = element.attrib.get(name, "")
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10 and least <= int(text) <= most):
        raise InputError(
            f"<{element.tag}> has no such `{name}`", key=name, found=text[:40], allowed=f"{least} to {most}"
        )
    return int(text)


# ------------------------------------------------------------------------------------------------------------ running


def _run(program: MscclAlgorithm, pieces: Ints | None) -> tuple[_Machine, list[str]]:
    """Runs all blocks as far as they go; the state then, and what is wrong."""
    machine = _Machine({place: (content, 0) for place, content in program.inputs().items()})
    blocks = list(program.blocks)
    while blocks and not machine.problems:  # a step each in turn, as blocks that run side by side do
        if not sum(_advanced(machine, program, block) for block in blocks):
            break
        blocks = [block for block in blocks if machine.done[block.rank, block.number] < len(block.steps)]
    stuck = [block for block in program.blocks if machine.done[block.rank, block.number] < len(block.steps)]
    if stuck and not machine.problems:
        machine.problems.append(f"rank {stuck[0].rank} waits forever in thread block {stuck[0].number}")
    left = next((ends for ends, wire in machine.wires.items() if wire), None)
    if left is not None and not machine.problems:
        machine.problems.append(f"rank {left[1]} never takes what rank {left[0]} sent")
    ends = program.missing(lambda place: machine.memory.get(place, (frozenset(), 0))[0], pieces)
    return machine, machine.problems or list(ends)


def _advanced(machine: _Machine, program: MscclAlgorithm, block: ThreadBlock) -> bool:
    """Runs the next step of a thread block; whether it could."""
    done = machine.done[block.rank, block.number]
    if machine.problems or done == len(block.steps):
        return False
    step = block.steps[done]
    if step.wait[0] >= 0 and machine.done[block.rank, step.wait[0]] <= step.wait[1]:
        return False
    taken: _Message | None = None
    if step.kind in _RECEIVES:
        wire = machine.wires[block.of, block.rank, block.channel]
        if not wire:
            return False
        taken = wire.popleft()
        if len(taken.contents) != step.count:
            machine.problems.append(
                f"rank {block.rank} takes {step.count} chunks of a message of {len(taken.contents)}"
            )
            return False
        taken.adds = step.kind in _ADDS
    if step.kind != "nop":
        _work(machine, program, block, step, taken)
    machine.done[block.rank, block.number] = done + 1
    return not machine.problems


def _work(
    machine: _Machine, program: MscclAlgorithm, block: ThreadBlock, step: BlockStep, taken: _Message | None
) -> None:
    """Reads, adds, stores and sends what one step does."""
    rank, values = block.rank, []
    for at in range(step.count):
        here = program.place(rank, step.source[0], step.source[1] + at)
        there = program.place(rank, step.target[0], step.target[1] + at)
        value = (taken.contents[at], taken.depth) if taken is not None else machine.memory.get(here)
        if value is None:
            machine.problems.append(f"rank {rank} sends {here[1]} {here[2]} and has nothing there")
            return
        if step.kind in _ADDS:
            before = machine.memory.get(there if step.kind == "re" else here, (frozenset(), 0))
            value = _sum(machine, rank, value, before)
        if step.kind not in ("s", "rrs"):
            machine.memory[there] = value
        values.append(value)
    if step.kind in _SENDS:
        depth = 1 + max(depth for _, depth in values)
        message = _Message(rank, block.to, [content for content, _ in values], depth)
        machine.wires[rank, block.to, block.channel].append(message)
        machine.sent.append(message)


def _sum(machine: _Machine, rank: int, one: tuple[Content, int], other: tuple[Content, int]) -> tuple[Content, int]:
    if one[0] & other[0]:
        machine.problems.append(f"rank {rank} adds a part of chunk {min(one[0] & other[0])[1]} twice")
    if len({at for _, at in one[0] | other[0]}) > 1:
        machine.problems.append(f"rank {rank} adds different chunks to one another")
    return one[0] | other[0], max(one[1], other[1])
