"""What the keeper of a lab builds and what its ranks do, as plain data: it goes to another process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import select
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


NET_ADMIN, SYS_ADMIN = 12, 21
"""Numbers of capabilities (linux/capability.h)."""

SEED = Path("/proc/sys/net/ipv4/fib_multipath_hash_seed")

FRR = (Path("/usr/lib/frr/zebra"), Path("/usr/lib/frr/bgpd"))


def missing() -> str:
    """Words about what this machine lacks for a lab; empty if nothing."""
    if not sys.platform.startswith("linux"):
        return f"Linux, for its network namespaces; this is {sys.platform}"
    held = _capabilities()
    if not (held >> NET_ADMIN & 1 and held >> SYS_ADMIN & 1):
        return "the right to make network namespaces (CAP_NET_ADMIN and CAP_SYS_ADMIN, which root has)"
    absent = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if absent:
        return f"`{'` and `'.join(absent)}` of iproute2"
    if not SEED.exists():
        return "Linux 6.11 or newer, whose switches can be given the seed of their hashes"
    if not os.access(SEED, os.W_OK):
        return "settings of the network that can be written; /proc/sys is mounted without that right, as in a container"
    return ""


def need(routing: str = "static") -> None:
    """Makes sure of it.

    Raises:
        InputError: Names what is missing.
    """
    lacking = missing()
    if not lacking and routing == "frr" and not all(path.exists() for path in FRR):
        lacking = "FRR (its daemons zebra and bgpd), for `lab: {routing: frr}`"
    if lacking:
        raise InputError(
            f"the engine `lab` runs the work for real on this machine, and needs {lacking}",
            key="engine",
            found="lab",
            allowed="analytic, flow, packet",
        )


def _capabilities() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


_LENGTH = struct.Struct("=Q")


def write_frame(end: int, value: object) -> None:
    """Writes a value to a file descriptor."""
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    data = _LENGTH.pack(len(data)) + data
    while data:
        data = data[os.write(end, data) :]


def read_frame(end: int) -> Any:
    """The next value of a file descriptor.

    Raises:
        EOFError: It ends before.
    """
    return pickle.loads(_exactly(end, _LENGTH.unpack(_exactly(end, _LENGTH.size))[0]))


def _exactly(end: int, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        more = os.read(end, size - len(got))
        if not more:
            raise EOFError("the other process ended")
        got += more
    return bytes(got)


LOCK = Path(tempfile.gettempdir()) / "railyard-lab.lock"
POLL_S = 0.05


def played(plan: Blueprint, poll: Callable[[], None]) -> LabResult:
    """Builds a lab, runs what it is for, and lets it vanish.

    Args:
        plan: Everything.
        poll: Called about twenty times a second; may raise to end the lab.

    Raises:
        SimulationError: The kernel refuses something, a rank fails, or it takes too long.
    """
    with _alone(poll):
        answer, end = os.pipe()
        words = [sys.executable, "-m", "railyard.engine.lab.keeper", str(end)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=[end])
        os.close(end)
        try:
            return _answer(process, answer, plan, poll)
        finally:
            process.kill()
            process.wait()
            os.close(answer)
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]


def _answer(process: subprocess.Popen[bytes], answer: int, plan: Blueprint, poll: Callable[[], None]) -> LabResult:
    assert process.stdin is not None
    try:
        write_frame(process.stdin.fileno(), plan)
        while not select.select([answer], [], [], POLL_S)[0]:
            poll()
        said, value = read_frame(answer)
    except (EOFError, BrokenPipeError):
        raise SimulationError("the lab's keeper ended without an answer") from None
    if said == "hung":
        raise SimulationError(f"the lab ran longer than {plan.limit_s:.0f} s: {value}")
    if said == "error":
        raise SimulationError(f"the lab failed: {value}")
    ran: LabResult = value
    return ran


@contextlib.contextmanager
def _alone(poll: Callable[[], None]) -> Iterator[None]:
    """One lab at a time on a machine: two would take the processors from one another."""
    with LOCK.open("a", encoding="ascii") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                poll()
                select.select([], [], [], POLL_S)
        yield


GATEWAY = "169.254.0.1"
"""Address of whatever is at the other end of a link: next hops are reached by it, as under BGP unnumbered."""

FIRST_LISTENING = 5000
"""Rank r listens on this port and r."""


@dataclass(frozen=True)
class LabPort:
    """One end of a cable.

    Attributes:
        node: Number of the node that it is at.
        name: Of the interface, in its node.
        mac: Its address on the link.
        peer: Number of the port at the other end.
        link: Physical link of the cluster that leaves by it.
        rate_bps: Of that link in the lab, bit/s.
    """

    node: int
    name: str
    mac: str
    peer: int
    link: int
    rate_bps: float


@dataclass(frozen=True)
class LabNode:
    """A host or a switch: a network namespace.

    Attributes:
        hash_seed: Of its choice among equal next hops; 0 for hosts.
        addresses: Interface and address, of a host one each.
        routes: Of a switch: address, and the interfaces by which it is reached equally well.
    """

    name: str
    hash_seed: int = 0
    addresses: tuple[tuple[str, str], ...] = ()
    routes: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Wires:
    """The network of a lab.

    Attributes:
        nodes: Hosts first.
        hosts: How many of them.
        ports: Both ends of each cable.
        mtu: Bytes of an IP packet.
        routing: `static`, or `frr`: BGP unnumbered by FRR's daemons.
    """

    nodes: tuple[LabNode, ...]
    hosts: int
    ports: tuple[LabPort, ...]
    mtu: int
    routing: str = "static"


@dataclass(frozen=True)
class Connection:
    """A TCP connection, whose data go one way.

    Attributes:
        source: Rank.
        target: Rank.
        source_address: By which it leaves: of a NIC.
        source_port: Chosen so that switches hash it onto the path that the cluster drew; 0: any.
        links: Of the cluster, that it crosses; none inside a server.
    """

    source: int
    target: int
    source_address: str
    source_port: int
    target_address: str
    links: tuple[int, ...] = ()


@dataclass(frozen=True)
class Script:
    """Sends and receives of one member of a collective.

    Attributes:
        sends: Of each, in the order of its connection: the number of the connection among those that the task names,
            bytes, and the receives that must be over.
        receives: Of each, in the order of its connection: the number of the connection, and bytes.
        rounds: How often all of it is done, one after another.
    """

    sends: tuple[tuple[int, int, tuple[int, ...]], ...]
    receives: tuple[tuple[int, int], ...]
    rounds: int = 1


@dataclass(frozen=True)
class RankStep:
    """A task as one rank sees it.

    Attributes:
        task: Number in the graph.
        stream: Its turn; -1: it waits for nobody's turn.
        waits: Tasks of which this rank learns that they have ended.
        need: How many of them must have.
        seconds: Of a computation, in the lab.
        script: Of a collective, a row of the program's scripts; -1: none.
        members: Of a collective, its ranks.
        out: Connections of its sends; of a transfer those by which its parts go.
        into: Connections of its receives.
        size_bytes: Of a part of a transfer, by its source.
        release_s: Not earlier.
        delay_s: From when it may start to its start.
    """

    task: int
    stream: int
    waits: tuple[int, ...] = ()
    need: int = 0
    seconds: float = 0.0
    script: int = -1
    members: tuple[int, ...] = ()
    out: tuple[int, ...] = ()
    into: tuple[int, ...] = ()
    size_bytes: int = -1
    release_s: float = 0.0
    delay_s: float = 0.0


@dataclass(frozen=True)
class RankProgram:
    """What one rank does.

    Attributes:
        host: The node that it runs on.
        steps: Its tasks in the order of their numbers.
        arrives: Transfers that come to it: by task, from which rank, bytes of a part, and parts.
        notes: Tasks whose end it lets others know, each with their ranks.
        noted: How many of those it is let know of.
        slower: What its computations are multiplied by.
        late_s: Added to the computation that runs at a moment, or the next one: moment and length.
    """

    rank: int
    host: int
    steps: tuple[RankStep, ...]
    scripts: tuple[Script, ...]
    arrives: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    notes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    noted: int = 0
    slower: float = 1.0
    late_s: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Command:
    """A program of the user's that runs as one rank.

    Attributes:
        host: The node that it runs on.
        environment: Variables added to those of the caller.
    """

    host: int
    words: tuple[str, ...]
    environment: dict[str, str]


@dataclass(frozen=True)
class Blueprint:
    """A lab and what is done in it.

    Attributes:
        programs: One a rank; or
        commands: the user's programs.
        window_bytes: What a connection may have on its way.
        sample_s: Between two looks at the queues; 0: none.
        limit_s: A run that takes longer hangs.
    """

    wires: Wires
    connections: tuple[Connection, ...] = ()
    programs: tuple[RankProgram, ...] = ()
    commands: tuple[Command, ...] = ()
    window_bytes: int = 1 << 18
    sample_s: float = 0.02
    limit_s: float = 600.0


@dataclass(frozen=True)
class PortCounts:
    """What ports counted over a run.

    Attributes:
        bytes: Of each port of the wires, with the headers of the link.
        full_s: How long packets waited at it, by the samples.
        drops: Packets that found no room.
    """

    bytes: tuple[int, ...]
    full_s: tuple[float, ...]
    drops: tuple[int, ...]


@dataclass(frozen=True)
class LabResult:
    """What came of a run.

    Attributes:
        times: Of each rank: task, start and end of it there, ns from the start of the run; -1: not there.
        starved: The largest share of the run for which a rank was ready and had no processor.
        statuses: Of the user's programs, how each ended.
    """

    times: tuple[dict[int, tuple[int, int]], ...]
    counted: PortCounts
    starved: float
    statuses: tuple[int, ...] = ()
