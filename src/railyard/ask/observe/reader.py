"""What a reader of traces and logs is, and what it finds in a file."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.ask.observe.kernels import Kernels
    from railyard.ask.observe.sources import Source
    from railyard.cluster.asbuilt.discovery import Discovery

MOST_DIGITS = 20
"""Of a count of 64 bits; what has more was spoilt on its way."""

COMPLETED, STARTED, SCHEDULED = "completed", "started", "scheduled"


@dataclass(frozen=True, slots=True)
class Call:
    """A collective that a rank called, as its library noted it.

    Attributes:
        rank: Of the whole job.
        group: Process group.
        sequence: Number in the group, equal on all members.
        name: Operation.
        state: `SCHEDULED`, `STARTED` or `COMPLETED`.
        size_bytes: Of its input; 0 where not known.
        shape: Sizes and types of its input in words; equal on all members of a collective that fits.
    """

    rank: int
    group: str
    sequence: int
    name: str
    state: str
    size_bytes: int = 0
    shape: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A rank in a communicator, as its library's monitor saw it.

    Attributes:
        group: The communicator.
        rank: In it.
        host: Where; empty where not known.
        counts: How often it called each collective.
        missing: `dead`, `unresponsive`, or empty for a rank that answers.
    """

    group: str
    rank: int
    host: str
    counts: dict[str, int]
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Count:
    """What a counter of a port or device stood at.

    Attributes:
        where: Host or switch, as the file calls it; empty where it does not say.
        port: Port or device of it.
        name: Of the counter, as its source writes it.
        value: Since whenever it began to count.
    """

    where: str
    port: str
    name: str
    value: float

    @property
    def part(self) -> str:
        """Where and port in words."""
        return " ".join(word for word in (self.where, self.port) if word)


@dataclass(frozen=True, slots=True)
class Timed:
    """A collective that a benchmark or a profiler timed.

    Attributes:
        kind: all_reduce and so on; empty where the file does not say.
        size_bytes: As nccl-tests counts it.
        seconds: How long.
        ranks: Of its communicator; 0 where the file does not say.
        hosts: Over which they lie; 0 where it does not say.
        busbw_bps: As it was written, bit/s; None where it was not.
        rank: Who timed it, -1 where all did together.
        group: Communicator.
        wrong: Values that came out wrong.
        at_s: When it was noted, Unix time; nan where the file does not say.
    """

    kind: str
    size_bytes: int
    seconds: float
    ranks: int = 0
    hosts: int = 0
    busbw_bps: float | None = None
    rank: int = -1
    group: str = ""
    wrong: int = 0
    at_s: float = math.nan


@dataclass(frozen=True, slots=True)
class Edge:
    """A connection that a library of collectives opened.

    Attributes:
        group: Communicator.
        channel: Number.
        source: Rank that sends.
        target: Rank that receives.
        via: As the log writes it: `NET/IB/0/GDRDMA`, `P2P/CUMEM`, `SHM`.
        pattern: ring or tree, as far as the log says.
    """

    group: str
    channel: int
    source: int
    target: int
    via: str
    pattern: str = ""


@dataclass
class Piece:
    """What one file says.

    Attributes:
        source: Its name.
        rank: Whose it is; None where it does not say.
        world: Ranks of the job; 0 where it does not say.
        kernels: What ran; None where the file is no trace.
        calls: Collectives that were called.
        members: Of communicators, as a monitor of all ranks saw them.
        well: Communicators of which a monitor says that they run and agree, and no more.
        groups: Members of process groups by name.
        steps: Of a trace, number, start and end of each step as the profiler marked them, ns of the rank's clock.
        exact: Whether `steps` are times of the device, to which kernels belong exactly; else of the host.
        began_ns: When the host began the first of them; -1 where it does not say.
        device: Number of the accelerator on its host; -1 where it does not say.
        counts: Counters of ports and devices.
        timings: Collectives that were timed.
        edges: Connections.
        cabling: Devices and cables, of a discovery of the network; None where the file is none.
        remarks: What a reader of the result must know.
        timed: Whether it is a trace of times, of which there is one a rank.
    """

    source: str
    rank: int | None = None
    world: int = 0
    kernels: Kernels | None = None
    calls: list[Call] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    well: int = 0
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    steps: list[tuple[int, int, int]] = field(default_factory=list)
    exact: bool = False
    began_ns: int = -1
    device: int = -1
    counts: list[Count] = field(default_factory=list)
    timings: list[Timed] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    cabling: Discovery | None = None
    remarks: list[str] = field(default_factory=list)
    timed: bool = False


@dataclass(frozen=True)
class Reader:
    """A format; the record in its file is its registration.

    Attributes:
        name: Of the format.
        summary: What writes such files.
        recognises: Of a file's name and its first 4096 bytes: whether it is one of these.
        read: What it says; raises InputError where it is damaged beyond use.
    """

    name: str
    summary: str
    recognises: Callable[[str, bytes], bool]
    read: Callable[[Source], Piece]


readers: Registry[Reader] = Registry("reader of traces", package="railyard.ask.observe.readers")


def is_count(word: str) -> bool:
    """Whether a word is a count as programs print them: decimal digits of ASCII, at most `MOST_DIGITS`."""
    return word.isascii() and word.isdigit() and len(word) <= MOST_DIGITS
