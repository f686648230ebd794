"""PyTorch profiler (Kineto): Chrome trace JSON of one rank, with kernels of NCCL, RCCL and calls of gloo."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from railyard.ask.observe.gather import EventFile
from railyard.ask.observe.kernels import COMMUNICATION, COMPUTE, COPY_PHASE, KernelRows, is_communication, kind_of
from railyard.ask.observe.reader import Piece, Reader, readers
from railyard.kit.errors import InputError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.observe.reader import TraceSource

_RANK = re.compile(r"rank[-_ ]?(\d+)", re.IGNORECASE)
TYPE_BYTES = {
    "float": 4, "float32": 4, "int": 4, "int32": 4, "uint32": 4, "half": 2, "float16": 2, "bfloat16": 2, "short": 2,
    "double": 8, "float64": 8, "long": 8, "int64": 8, "uint64": 8, "byte": 1, "char": 1, "int8": 1, "uint8": 1,
    "bool": 1,
}  # fmt: skip
_WANTED = re.compile(
    rb'"cat"\s*:\s*"(?:[Kk]ernel|gpu_mem|[Mm]emcpy|[Mm]emset|[Uu]ser_annotation|cuda_sync)"?|ProfilerStep#'
)
"""Parts of the text of an event that may be worth decoding."""
_STEP = re.compile(r"ProfilerStep#(\d{1,12})")
"""Mark of a step of `torch.profiler`'s schedule."""
_NUMBER = re.compile(r"\d{1,9}")
_COPIES = ("gpu_memcpy", "gpu_memset", "memcpy", "memset")


def recognises(_: str, head: bytes) -> bool:
    """Recognises the keys of its JSON."""
    keys = (b'"traceEvents"', b'"schemaVersion"', b'"distributedInfo"', b'"deviceProperties"')
    bare = head.lstrip()
    return bare[:1] in (b"{", b"[") and (any(key in head for key in keys) or (b'"ph"' in head and b'"ts"' in head))


def read(source: TraceSource) -> Piece:
    """Kernels, copies and communications of one rank.

    Raises:
        InputError: The file has no events.
    """
    file = EventFile(source, _WANTED)
    piece = Piece(source.name, timed=True)
    found = _Found(piece, file.about)
    for event in file.events():
        found.take(event)
    if not file.count:
        raise InputError(f"the file has no events: {file.damage or 'its list is empty'}", file=source.name)
    _about(piece, file)
    found.settle(whole_number(file.about.get("baseTimeNanoseconds"), 0))
    if found.annotated and piece.kernels is not None and not piece.kernels.communicates.any():
        piece.remarks.append(f"{found.annotated} calls of NCCL are seen on the host, but none of their kernels")
    piece.faulty = bool(found.odd or file.damage or _odd_about(file.about))
    piece.note(found.timeless, "kernels have no usable time and were left out")
    if file.damage:
        piece.remarks.append(f"only the first {file.count} events could be read: {file.damage}")
    return piece


@dataclass
class _Found:
    """Findings of a file so far.

    Attributes:
        odd: Events with something that cannot be, see `kernel_fault`.
        messages: Of messages between two ranks, by the word for their group, the other rank and whether it receives.
        marks: Start and end of each step by number, on the host and on the device, ns.
    """

    piece: Piece
    about: dict[str, Any]
    rows: KernelRows = field(default_factory=KernelRows)
    annotated: int = 0
    timeless: int = 0
    odd: int = 0
    messages: dict[str, tuple[int, bool]] = field(default_factory=dict)
    marks: dict[bool, dict[int, tuple[int, int]]] = field(default_factory=lambda: {False: {}, True: {}})

    def take(self, event: dict[str, Any]) -> None:
        """Notes an event, if it says anything of kernels or steps."""
        category, name = str(event.get("cat", "")).lower(), str(event.get("name", ""))
        phase = _phase(category, name)
        if phase:
            noted = self._note(event, phase, name)
            self.timeless += not noted
            usual = noted and phase != COMMUNICATION and _is_usual(event.get("args"))
            self.odd += not usual and kernel_fault(event, self.about) is not None
        elif category.endswith("user_annotation"):
            self.annotated += name.startswith("nccl:")
            self._mark(event, name, device=category.startswith("gpu"))
        elif name == "Stream Wait Event":
            self._wait(event.get("args"))

    def _wait(self, noted: Any) -> None:
        """Notes that a stream waits for what another one has been given so far."""
        args = noted if isinstance(noted, dict) else {}
        names = ("stream", "correlation", "wait_on_stream", "wait_on_cuda_event_record_corr_id")
        stream, launch, other, record = (whole_number(args.get(name), -1) for name in names)
        if min(stream, launch, other, record) >= 0:
            self.piece.waits.append((stream, launch, other, record))

    def _mark(self, event: dict[str, Any], name: str, *, device: bool) -> None:
        """Notes where a step begins and ends; a device marks it once per stream, and their union counts."""
        step = _STEP.fullmatch(name)
        if step is None:
            return
        if kernel_fault(event, self.about) is not None:
            self.odd += 1
            return
        start = _ns(event["ts"])
        end = start + _ns(event["dur"])
        known = self.marks[device].get(int(step[1]))
        self.odd += known is not None and not device and (start >= known[1] or end <= known[0])
        known = known or (start, end)
        self.marks[device][int(step[1])] = min(start, known[0]), max(end, known[1])

    def _note(self, event: dict[str, Any], phase: str, name: str) -> bool:
        """Adds an event that has a time; False where it has none."""
        try:
            start, duration = _ns(event["ts"]), _ns(event["dur"])
            if duration < 0:
                return False
            noted = event.get("args")
            args = noted if isinstance(noted, dict) else {}
            common: dict[str, Any] = {
                "stream": whole_number(args.get("stream", event.get("tid")), 0),
                "launch": whole_number(args.get("correlation"), -1),
            }
            if phase == COMMUNICATION:
                common |= self._communication(name, args)
            elif phase == COMPUTE:
                common["blocks"] = _blocks(args.get("grid"))
            self.rows.add(phase, name, start, duration, **common)
        except (KeyError, TypeError, ValueError, OverflowError):
            return False
        if self.piece.device < 0:
            self.piece.device = whole_number(args.get("device"), -1)
        return True

    def _communication(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        called, group = str(args.get("Collective name", "")), str(args.get("Process Group Name", ""))
        kind = (kind_of(called) if called else "") or kind_of(name)
        self._members(group, args)
        peer = whole_number(args.get("Dst Rank", args.get("Src Rank")), -1)
        if kind in ("send", "recv") and peer >= 0:
            receives = "Dst Rank" in args
            word = f"{group} {'to' if receives else 'from'} {peer}"
            self.messages[word] = peer, receives
            kind, group = "send_recv", word
        return {"kind": kind, "group": group, "sequence": whole_number(args.get("Seq"), -1), "size_bytes": _size(args)}

    def _members(self, group: str, args: dict[str, Any]) -> None:
        """Notes who is in a process group; the profiler lists up to 30 ranks, then only the first and the last."""
        if group and args.get("Process Group Description"):
            self.piece.purposes.setdefault(group, str(args["Process Group Description"]))
        listed = args.get("Process Group Ranks")
        if not isinstance(listed, str) or group in self.piece.groups:
            return
        ranks = tuple(int(rank) for rank in _NUMBER.findall(listed))
        self.piece.world = max(
            self.piece.world, whole_number(args.get("Group size"), 0), *(rank + 1 for rank in ranks), 0
        )
        self.piece.groups[group] = () if "..." in listed else ranks

    def settle(self, base_ns: int) -> None:
        """Gives messages one group at both ends, and kernels and steps the base that their file counts from."""
        piece, kernels = self.piece, self.rows.columns()
        if piece.rank is not None and self.messages:
            names = {}
            for word, (peer, receives) in self.messages.items():
                pair = (piece.rank, peer) if receives else (peer, piece.rank)
                names[word] = f"{pair[0]} to {pair[1]}"
                piece.groups[names[word]] = pair
            kernels = replace(kernels, words=tuple(names.get(word, word) for word in kernels.words))
        starts = kernels.start_ns
        counts = 0 < base_ns < 1 << 62 and len(starts) and starts.min() < base_ns and starts.max() < 1 << 62
        later = base_ns if counts else 0
        piece.kernels = kernels.later(later)
        piece.exact = bool(self.marks[True])
        marks = sorted(self.marks[piece.exact].items())
        piece.steps = [(number, start + later, end + later) for number, (start, end) in marks]
        piece.began_ns = min((start + later for start, _ in self.marks[False].values()), default=-1)


def _phase(category: str, name: str) -> str:
    """Phase of an event of a device, or of a library that runs on the host; empty for any other."""
    if category == "kernel":
        return COMMUNICATION if is_communication(name) else COMPUTE
    if category in _COPIES:
        return COPY_PHASE
    return COMMUNICATION if category == "user_annotation" and name.startswith("gloo:") else ""


def _blocks(grid: Any) -> int:
    """Thread blocks of a grid; 0 where the profiler noted none."""
    if not isinstance(grid, list):
        return 0
    sizes = [whole_number(one, 0) for one in grid]
    found = math.prod(sizes) if sizes else 0
    return found if 0 < found < 1 << 62 else 0


def _ns(microseconds: Any) -> int:
    """Exactly: parts of a microsecond have three digits, and a double keeps them only up to 10^13 us."""
    if isinstance(microseconds, bool) or not isinstance(microseconds, int | float | str):
        raise TypeError
    if isinstance(microseconds, int):
        return microseconds * 1000
    number = float(microseconds)
    return int(number) * 1000 + round((number - int(number)) * 1000)


def whole_number(value: Any, otherwise: int) -> int:
    """A whole number of less than 2^62; another value for anything else."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return number if abs(number) < 1 << 62 else otherwise


_NEVER = 1 << 62
_COUNTS = ("In msg nelems", "Out msg nelems", "Group size")


def _is_usual(args: Any) -> bool:
    """Whether a kernel says its stream and launch as nearly all do: quicker than `kernel_fault`."""
    return type(args) is dict and type(args.get("stream", 0)) is type(args.get("correlation", 0)) is int


def kernel_fault(event: dict[str, Any], about: dict[str, Any]) -> tuple[str, object, str] | None:
    """What of a kernel or a step cannot be: its key, what stands there, and what may; None: nothing."""
    for key in ("ts", "dur"):
        try:
            number = _ns(event[key])
        except (KeyError, TypeError, ValueError, OverflowError):
            return key, event.get(key), "microseconds"
        if not -_NEVER < number < _NEVER or (key == "dur" and number < 0):
            return key, event[key], "microseconds, of a duration at least 0"
    args = event.get("args", {})
    if not isinstance(args, dict):
        return "args", args, "an object"
    for key in ("stream", "correlation", *_COUNTS):
        if key in args and (
            whole_number(args[key], _NEVER) == _NEVER or (key in _COUNTS and whole_number(args[key], 0) < 0)
        ):
            return f"args.{key}", args[key], "a whole number"
    listed = args.get("Process Group Ranks", "")
    ranks = _NUMBER.findall(listed) if isinstance(listed, str) else []
    most = whole_number(_part(about, "distributedInfo").get("world_size"), 0) or _NEVER
    if len(set(ranks)) < len(ranks) or any(int(rank) >= most for rank in ranks):
        return "args.Process Group Ranks", listed, "each rank of the job once"
    return None


def trace_faults(source: TraceSource) -> Iterator[Problem]:
    """What is wrong with a trace, event by event, with key and line; lines of packed files nobody can look up."""
    file = EventFile(source, None)
    plain = bool(source.size_bytes) and not source.name.endswith(".gz")
    steps: dict[int, int] = {}
    for event in file.events():
        line, at = file.line if plain else None, file.count - 1
        category, name = str(event.get("cat", "")).lower(), str(event.get("name", ""))
        step = _STEP.fullmatch(name) if category == "user_annotation" else None
        first = at if step is None else steps.setdefault(int(step[1]), at)
        if first != at:
            words, key = f"traceEvents[{first}] has the same number of a step", f"traceEvents[{at}].name"
            yield Problem(words, file=source.name, line=line, key=key, found=name)
        wrong = kernel_fault(event, file.about) if step is not None or _phase(category, name) else None
        if wrong is not None:
            words, key = (
                f"a {'kernel' if step is None else 'step'} has an unusable `{wrong[0].removeprefix('args.')}`",
                f"traceEvents[{at}].{wrong[0]}",
            )
            yield Problem(words, source.name, line, key=key, found=str(wrong[1]), allowed=wrong[2])
    if file.damage:
        yield Problem(f"{file.damage}, behind {file.count:,} events", file=source.name)
    if odd := _odd_about(file.about):
        found = str(_part(file.about, "distributedInfo").get(odd))
        words, key = "this is not a whole number of at least 0", f"distributedInfo.{odd}"
        yield Problem(words, file=source.name, key=key, found=found)


def _odd_about(about: dict[str, Any]) -> str:
    """The key of `distributedInfo` that should be a count and is none; empty: neither."""
    info = _part(about, "distributedInfo")
    return next((key for key in ("rank", "world_size") if key in info and whole_number(info[key], -1) < 0), "")


def _part(about: dict[str, Any], key: str) -> dict[str, Any]:
    found = about.get(key)
    return found if isinstance(found, dict) else {}


def _size(args: dict[str, Any]) -> int:
    elements = max(whole_number(args.get("In msg nelems"), 0), whole_number(args.get("Out msg nelems"), 0))
    size = elements * TYPE_BYTES.get(str(args.get("dtype", "")).lower(), 0)
    return size if 0 <= size < 1 << 62 else 0


def _about(piece: Piece, file: EventFile) -> None:
    info = _part(file.about, "distributedInfo")
    rank = whole_number(info.get("rank"), -1)
    named = _RANK.search(PurePath(piece.source).name)
    piece.rank = rank if rank >= 0 else int(named[1]) if named else None
    groups = info.get("pg_config")
    for group in groups if isinstance(groups, list) else ():
        if isinstance(group, dict):
            name = str(group.get("pg_name", ""))
            piece.groups[name] = _ranks(group.get("ranks")) or piece.groups.get(name, ())
            piece.purposes.setdefault(name, str(group.get("pg_desc", "")))
    members = [one for ranks in piece.groups.values() for one in ranks]
    world = whole_number(info.get("world_size"), 0)
    piece.world = world if world > 0 else max([piece.world, *(one + 1 for one in members)])


def _ranks(found: Any) -> tuple[int, ...]:
    try:
        listed = json.loads(found) if isinstance(found, str) else found
    except ValueError:
        return ()
    return tuple(whole_number(rank, -1) for rank in listed) if isinstance(listed, list) else ()


readers.enter(Reader("kineto", "PyTorch profiler: Chrome trace JSON of a rank", recognises, read))
