"""Reads Chakra execution traces: one file a rank (`name.0.et`, `name.1.et`, ...), nodes that compute and communicate.

Computation takes its measured time, sends meet receives by ranks and tag in order, and the n-th collective of a process
group is the n-th of that group on every rank that has it. What real traces lack is listed, not refused.
"""

from __future__ import annotations

import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.graph import AT_RECEIVER, AT_SENDER
from railyard.kit.errors import InputError
from railyard.work.trace import chakra_protobuf
from railyard.work.trace.builder import MOST, MOST_HOSTS, WORLD, GraphBuilder, Lacks, content
from railyard.work.trace.chakra_order import (
    COLLECTIVE,
    KINDS,
    LAST_KIND,
    MEM_LOAD,
    MEM_STORE,
    METADATA,
    RECV,
    SEND,
    CollectiveCall,
    CollectiveEnds,
    add_collective,
    waits_of,
)
from railyard.work.trace.formats import is_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from railyard.work.trace.builder import Trace
    from railyard.work.trace.chakra_order import ChakraNode, RankTrace


_LAST_US = MOST // 10**6


def decoded(data: bytes) -> RankTrace:
    """The trace in the bytes of a file.

    Raises:
        InputError: They are no trace.
    """
    decode = chakra_protobuf.decoded_json if data.lstrip()[:1] in (b"{", b"[") else chakra_protobuf.decoded
    found = decode(data)
    _check(found.nodes)
    return found


def _check(nodes: list[ChakraNode]) -> None:
    if not nodes:
        raise InputError("the trace holds no nodes")
    if len({node.id for node in nodes}) < len(nodes):
        raise InputError("two nodes of the trace have the same number")
    for node in nodes:
        if not 0 <= node.duration_us <= _LAST_US:
            raise InputError(f"node {node.id} ({node.name}) takes too long", found=node.duration_us)


_NUMBERED = re.compile(r"(.*\.)(\d+)\.(et|json)")
_SUFFIXES = (".et", ".json")


def files_of(path: Path) -> list[tuple[Path, bytes]]:
    """Name and content of the file of every rank, in order.

    Args:
        path: A folder, an archive (tar, zip), or one file; files `name.<rank>.et` stand for all of that name.

    Raises:
        InputError: There is no trace, one of a rank is missing, or a file cannot be read.
    """
    if path.is_dir():
        return _opened(path, _ranked(path, sorted(file.name for file in path.iterdir())), _reader(path))
    data = content(path)
    if is_archive(data):
        found = _unpacked(path, data)
        return _opened(path, _ranked(path, sorted(found)), lambda name: found[name])
    match = _NUMBERED.fullmatch(path.name)
    if match is None:
        return [(path, data)]
    siblings = [file.name for file in path.parent.iterdir() if _same(match, file.name)]
    if f"{match[1]}0.{match[3]}" not in siblings:
        return [(path, data)]  # the number is not that of a rank
    return _opened(path.parent, _ranked(path, siblings), _reader(path.parent))


def _same(match: re.Match[str], name: str) -> bool:
    other = _NUMBERED.fullmatch(name)
    return other is not None and (other[1], other[3]) == (match[1], match[3])


def _reader(folder: Path) -> Callable[[str], bytes]:
    return lambda name: content(folder / name)


def _opened(place: Path, names: list[str], read: Callable[[str], bytes]) -> list[tuple[Path, bytes]]:
    return [(place / name, read(name)) for name in names]


def _ranked(path: Path, names: Iterable[str]) -> list[str]:
    """Names of the files of all ranks, in order of rank.

    Raises:
        InputError: There are none, or one is missing.
    """
    traces = [name for name in names if name.endswith(_SUFFIXES) and not Path(name).name.startswith("._")]
    if not traces:
        raise InputError("the folder holds no trace", file=path, allowed="files named <name>.<rank>.et or .json")
    numbered = [match for name in traces if (match := _NUMBERED.fullmatch(name))]
    if not numbered:
        return traces[:1]
    stem, _, suffix = numbered[0].groups()
    ranks = {int(match[2]): match[0] for match in numbered if (match[1], match[3]) == (stem, suffix)}
    missing = next((rank for rank in range(len(ranks)) if rank not in ranks), None)
    if missing is not None:
        raise InputError(f"the trace has no file of rank {missing}", file=path, allowed=f"{stem}{missing}.{suffix}")
    return [ranks[rank] for rank in range(len(ranks))]


def _unpacked(path: Path, data: bytes) -> dict[str, bytes]:
    """The traces of an archive by name.

    Raises:
        InputError: It cannot be read.
    """
    try:
        if data.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(data)) as packed:
                return {name: packed.read(name) for name in packed.namelist() if name.endswith(_SUFFIXES)}
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            members = [member for member in tar if member.isfile() and member.name.endswith(_SUFFIXES)]
            return {member.name: file.read() for member in members if (file := tar.extractfile(member))}
    except (OSError, EOFError, ValueError, RuntimeError, NotImplementedError) as error:
        raise InputError("the archive cannot be read", file=path, found=str(error)) from None
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
        raise InputError("the archive cannot be read", file=path, found=str(error)) from None


_PS_PER_US = 10**6
_TALKS = frozenset({SEND, RECV, COLLECTIVE})

LEFT_OUT = (
    "the order in which a device takes computations that wait for nothing: only dependencies order them",
    "tensors and memory: loads and stores take their measured time",
)
COPIED = "one file stands for all ranks: {} collectives of every group have all ranks as members"
ALONE = "{} collectives have one member and take no time: the trace has the file of one rank (`ranks` says how many)"
NO_TIME = "{} computations have no measured time and take none"
OPERATIONS = "{} computations have operations (`num_ops`) and no time: they take none (`flops` sets the speed)"
HOST_SIDE = "{} communication nodes are calls on the host, without type or size: they take their measured time"
UNKNOWN = "{} nodes are of a type that is not known and take no time"
MEMORY = "{} loads and stores of memory take their measured time"
UNMATCHED = "{} sends and receives have no peer in the trace: they take no time"
NO_GROUP = "{} collectives name no process group: all ranks take part"
ODD = "{} collectives are missing on other ranks of their process group: they take their measured time"
DEADLOCK = "{} tasks wait for one another across ranks: they and what follows them never run"
SIZES = "{} collectives have different sizes on their ranks: the largest is taken"


@dataclass(frozen=True)
class _Place:
    """Position of a node.

    Attributes:
        task: The task that ends when the node does.
        begin: The task that ends when a communication may begin.
    """

    rank: int
    node: ChakraNode
    task: int
    begin: int = -1


@dataclass
class _Reading:
    """A trace while it becomes a graph."""

    builder: GraphBuilder
    lacks: Lacks
    flops: float = 0.0
    places: list[dict[int, _Place]] = field(default_factory=list)


def read(path: Path, *, ranks: int | None = None, flops: float = 0.0) -> Trace:
    """The tasks of a trace.

    Args:
        path: The folder of the files, any one of them, or an archive; protocol buffers or JSON.
        ranks: Of a trace with one file: so many ranks do what it says; None: as many as it says (JSON), else one.
        flops: FLOP/s with which computations run that have operations and no time.

    Raises:
        InputError: A file cannot be read or is no trace, a rank is missing, or ranks disagree on a collective.
    """
    files = files_of(path)
    found = [_decoded(*file) for file in files]
    reading = _Reading(GraphBuilder(_count(found, ranks, path)), Lacks(), flops)
    if len(found) == 1:
        found *= reading.builder.ranks
    try:
        _add_nodes(reading, found)
        _add_messages(reading)
        _add_collectives(reading, copied=len(files) < len(found))
    except InputError as error:
        raise error.located(file=path) from None
    trace = reading.builder.build(left_out=LEFT_OUT)
    reading.lacks.note(DEADLOCK, len(trace.never))
    return replace(trace, never=(), lacks=reading.lacks.sentences())


def _decoded(path: Path, data: bytes) -> RankTrace:
    try:
        return decoded(data)
    except InputError as error:
        raise error.located(file=path) from None


def _count(found: list[RankTrace], ranks: int | None, path: Path) -> int:
    """How many ranks there are.

    Raises:
        InputError: The trace has files of several ranks, and not of as many as were asked for.
    """
    if len(found) > 1:
        if ranks not in {None, len(found)}:
            message = "the trace has a file for each rank"
            raise InputError(message, file=path, key="ranks", found=ranks, allowed=len(found))
        return len(found)
    return ranks or found[0].ranks or 1


def _add_nodes(reading: _Reading, found: list[RankTrace]) -> None:
    """Adds a task for every node, then one for the begin of every communication, and lets them wait."""
    builder = reading.builder
    orders = {trace: waits_of(trace.nodes, reading.lacks) for trace in dict.fromkeys(found)}
    tasks = [{node.id: _task(reading, rank, node) for node in trace.nodes} for rank, trace in enumerate(found)]
    for rank, trace in enumerate(found):
        task_of, order = tasks[rank], orders[trace]
        places = {}
        for node in trace.nodes:
            waits = [(task_of[other], AT_SENDER) for other in order[node.id]]
            begin = builder.work(rank, 0, op="begin") if _talks(node) else -1
            builder.wait(task_of[node.id] if begin < 0 else begin, waits)
            if begin >= 0:
                builder.wait(task_of[node.id], [(begin, AT_SENDER)])
            places[node.id] = _Place(rank, node, task_of[node.id], begin)
        reading.places.append(places)


def _talks(node: ChakraNode) -> bool:
    """Whether a node moves data: the host's call of a collective has neither type nor size."""
    if node.kind != COLLECTIVE:
        return node.kind in _TALKS
    return "comm_type" in node.attributes


def _task(reading: _Reading, rank: int, node: ChakraNode) -> int:
    words = {SEND: "send", RECV: "receive", COLLECTIVE: "collective", METADATA: "metadata"}
    if _talks(node):
        return reading.builder.work(rank, 0, op=words[node.kind])
    op = words.get(node.kind, "memory" if node.kind in {MEM_LOAD, MEM_STORE} else "compute")
    host = bool(node.attributes.get("is_cpu_op", False))
    return reading.builder.work(rank, _time_ps(reading, node), op=op, host=host)


def _time_ps(reading: _Reading, node: ChakraNode) -> int:
    """How long a node computes; what it does not say is noted."""
    lacks = reading.lacks
    if node.kind == COLLECTIVE:
        lacks.note(HOST_SIDE)
    elif node.kind in {MEM_LOAD, MEM_STORE}:
        lacks.note(MEMORY)
    elif not METADATA <= node.kind <= LAST_KIND:
        lacks.note(UNKNOWN)
        return 0
    if node.duration_us or node.kind == METADATA:
        return node.duration_us * _PS_PER_US
    operations = node.attributes.get("num_ops", 0)
    if not isinstance(operations, int | float) or operations <= 0:
        lacks.note(NO_TIME)
        return 0
    if not reading.flops:
        lacks.note(OPERATIONS)
        return 0
    return round(operations / reading.flops * 1e12)


def _add_messages(reading: _Reading) -> None:
    """Joins sends and receives."""
    sends: defaultdict[tuple[int, int, int], list[_Place]] = defaultdict(list)
    receives: defaultdict[tuple[int, int, int], list[_Place]] = defaultdict(list)
    for place in (place for rank in reading.places for place in rank.values()):
        node = place.node
        if node.kind == SEND:
            target = node.number("comm_dst", high=MOST_HOSTS)
            sends[place.rank, target, node.number("comm_tag", default=0)].append(place)
        elif node.kind == RECV:
            source = node.number("comm_src", high=MOST_HOSTS)
            receives[source, place.rank, node.number("comm_tag", default=0)].append(place)
    for key in {**sends, **receives}:
        pairs = min(len(sends[key]), len(receives[key])) if key[0] != key[1] else 0
        reading.lacks.note(UNMATCHED, len(sends[key]) + len(receives[key]) - 2 * pairs)
        for sent, got in zip(sends[key][:pairs], receives[key][:pairs], strict=True):
            _add_message(reading.builder, sent, got)


def _add_message(builder: GraphBuilder, sent: _Place, got: _Place) -> None:
    transfer = builder.transfer(sent.rank, got.rank, max(1, sent.node.number("comm_size")))
    builder.wait(transfer, [(sent.begin, AT_SENDER)])
    builder.wait(sent.task, [(transfer, AT_SENDER)])
    builder.wait(got.task, [(transfer, AT_RECEIVER)])


def _add_collectives(reading: _Reading, *, copied: bool) -> None:
    """Adds the collectives of every process group."""
    groups: defaultdict[str, dict[int, list[_Place]]] = defaultdict(dict)
    for rank, places in enumerate(reading.places):
        for place in places.values():
            if place.begin >= 0 and place.node.kind == COLLECTIVE:
                name = str(place.node.attributes.get("pg_name", ""))
                groups[name].setdefault(rank, []).append(place)
    for name, members in groups.items():
        together = min(map(len, members.values()))
        reading.lacks.note(NO_GROUP, 0 if name else together)
        reading.lacks.note(COPIED, together if copied else 0)
        for place in (place for of_rank in members.values() for place in of_rank[together:]):
            _leave_out(reading, place)
        for number in range(together):
            _add_together(reading, name or WORLD, [of_rank[number] for of_rank in members.values()])


def _leave_out(reading: _Reading, place: _Place) -> None:
    """Lets a collective that other ranks do not have take its measured time."""
    alone = reading.builder.work(place.rank, place.node.duration_us * _PS_PER_US, op="collective")
    reading.builder.wait(alone, [(place.begin, AT_SENDER)])
    reading.builder.wait(place.task, [(alone, AT_SENDER)])
    reading.lacks.note(ODD)


def _add_together(reading: _Reading, group: str, places: list[_Place]) -> None:
    """Adds one collective.

    Raises:
        InputError: The ranks do not agree on what it is.
    """
    kinds = {place.node.number("comm_type", high=len(KINDS) - 1) for place in places}
    sizes = {place.node.number("comm_size", default=0, high=MOST_HOSTS << 40) for place in places}
    if len(kinds) > 1:
        names = ", ".join(f"node {place.node.id} of rank {place.rank}" for place in places[:2])
        raise InputError("ranks disagree on a collective", found=f"{names}: types {sorted(kinds)}")
    reading.lacks.note(SIZES, int(len(sizes) > 1))
    if len(places) < 2:
        reading.lacks.note(ALONE)
        return
    members = [CollectiveEnds(place.rank, place.begin, place.task) for place in places]
    root = places[0].node.number("root_rank", default=places[0].rank)
    at = next((number for number, place in enumerate(places) if place.rank == root), 0)
    add_collective(
        reading.builder, CollectiveCall(KINDS[kinds.pop()], group, max(sizes)), members[at:] + members[:at], members
    )
