"""What a reader of traces and logs is, and what it finds in a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.observe.sources import Source

COMPUTE, COMMUNICATION, COPY = "compute", "communication", "copy"


@dataclass(frozen=True, slots=True)
class Kernel:
    """Something that a device ran, or a communication that a host ran.

    Attributes:
        phase: `COMPUTE`, `COMMUNICATION` or `COPY`.
        name: As in the trace.
        start_ns: Of its rank's clock.
        duration_ns: How long.
        stream: Of the device, or thread of the host.
        kind: Of a communication: all_reduce and so on, empty where its name does not say.
        group: Of a communication: its process group, empty where that is not known.
        sequence: Of a communication: its number in the group, -1 where not known.
        size_bytes: Of a communication: the larger of its buffers, as in nccl-tests; 0 where not known.
    """

    phase: str
    name: str
    start_ns: int
    duration_ns: int
    stream: int = 0
    kind: str = ""
    group: str = ""
    sequence: int = -1
    size_bytes: int = 0


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


@dataclass
class Piece:
    """What one file says.

    Attributes:
        source: Its name.
        rank: Whose it is; None where it does not say.
        world: Ranks of the job; 0 where it does not say.
        kernels: What ran.
        calls: Collectives that were called.
        members: Of communicators, as a monitor of all ranks saw them.
        groups: Members of process groups by name.
        remarks: What a reader of the result must know.
        timed: Whether it is a trace of times, of which there is one a rank.
    """

    source: str
    rank: int | None = None
    world: int = 0
    kernels: list[Kernel] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
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


readers: Registry[Reader] = Registry("reader of traces", package="railyard.observe.readers")
