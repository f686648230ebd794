"""PyTorch profiler (Kineto): Chrome trace JSON of one rank, with kernels of NCCL, RCCL and calls of gloo."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError
from railyard.observe.collective_names import is_communication, kind_of
from railyard.observe.events import EventFile
from railyard.observe.kernels import COMMUNICATION, COMPUTE, COPY, KernelRows
from railyard.observe.reader import Piece, Reader, readers

if TYPE_CHECKING:
    from railyard.observe.sources import Source

_RANK = re.compile(r"rank[-_ ]?(\d+)", re.IGNORECASE)
_BYTES = {
    "float": 4, "float32": 4, "int": 4, "int32": 4, "uint32": 4, "half": 2, "float16": 2, "bfloat16": 2, "short": 2,
    "double": 8, "float64": 8, "long": 8, "int64": 8, "uint64": 8, "byte": 1, "char": 1, "int8": 1, "uint8": 1,
    "bool": 1,
}  # fmt: skip
_WANTED = re.compile(rb'"cat"\s*:\s*"(?:[Kk]ernel|gpu_mem|[Mm]emcpy|[Mm]emset|[Uu]ser_annotation)"?')
"""Of the text of an event that may be worth decoding."""
_COPIES = ("gpu_memcpy", "gpu_memset", "memcpy", "memset")


def recognises(_: str, head: bytes) -> bool:
    """By its keys."""
    keys = (b'"traceEvents"', b'"schemaVersion"', b'"distributedInfo"', b'"deviceProperties"')
    bare = head.lstrip()
    return bare[:1] in (b"{", b"[") and (any(key in head for key in keys) or (b'"ph"' in head and b'"ts"' in head))


def read(source: Source) -> Piece:
    """Kernels, copies and communications of one rank.

    Raises:
        InputError: The file has no events.
    """
    file = EventFile(source, _WANTED)
    piece = Piece(source.name, timed=True)
    rows, annotated, timeless = KernelRows(), 0, 0
    for event in file.events():
        category = str(event.get("cat", "")).lower()
        name = str(event.get("name", ""))
        if category == "kernel":
            timeless += not _note(rows, event, COMMUNICATION if is_communication(name) else COMPUTE, name)
        elif category in _COPIES:
            timeless += not _note(rows, event, COPY, name)
        elif category == "user_annotation":
            annotated += name.startswith("nccl:")
            if name.startswith("gloo:"):
                timeless += not _note(rows, event, COMMUNICATION, name)
    if not file.count:
        raise InputError(f"the file has no events: {file.damage or 'its list is empty'}", file=source.name)
    piece.kernels = rows.columns()
    _about(piece, file)
    if annotated and not piece.kernels.communicates.any():
        piece.remarks.append(f"{annotated} calls of NCCL are seen on the host and none of their kernels")
    if timeless:
        piece.remarks.append(f"{timeless} kernels have no usable time and were left out")
    if file.damage:
        piece.remarks.append(f"only the first {file.count} events could be read: {file.damage}")
    return piece


def _note(rows: KernelRows, event: dict[str, Any], phase: str, name: str) -> bool:
    """Adds an event that has a time; False where it has none."""
    try:
        start, duration = _ns(event["ts"]), _ns(event["dur"])
        if duration < 0:
            return False
        noted = event.get("args")
        args = noted if isinstance(noted, dict) else {}
        stream = _whole(args.get("stream", event.get("tid")), 0)
        if phase != COMMUNICATION:
            rows.add(phase, name, start, duration, stream=stream)
            return True
        called = str(args.get("Collective name", ""))
        rows.add(
            phase,
            name,
            start,
            duration,
            stream=stream,
            kind=(kind_of(called) if called else "") or kind_of(name),
            group=str(args.get("Process Group Name", "")),
            sequence=_whole(args.get("Seq"), -1),
            size_bytes=_size(args),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return False
    return True


def _ns(microseconds: Any) -> int:
    """Exactly: parts of a microsecond have three digits, and a double keeps them only up to 10^13 us."""
    if isinstance(microseconds, bool) or not isinstance(microseconds, int | float | str):
        raise TypeError
    if isinstance(microseconds, int):
        return microseconds * 1000
    number = float(microseconds)
    return int(number) * 1000 + round((number - int(number)) * 1000)


def _whole(value: Any, otherwise: int) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return number if abs(number) < 1 << 62 else otherwise


def _size(args: dict[str, Any]) -> int:
    elements = max(_whole(args.get("In msg nelems"), 0), _whole(args.get("Out msg nelems"), 0))
    size = elements * _BYTES.get(str(args.get("dtype", "")).lower(), 0)
    return size if 0 <= size < 1 << 62 else 0


def _about(piece: Piece, file: EventFile) -> None:
    about = file.about.get("distributedInfo")
    info = about if isinstance(about, dict) else {}
    rank = _whole(info.get("rank"), -1)
    named = _RANK.search(PurePath(piece.source).name)
    piece.rank = rank if rank >= 0 else int(named[1]) if named else None
    piece.world = max(_whole(info.get("world_size"), 0), 0)
    groups = info.get("pg_config")
    for group in groups if isinstance(groups, list) else ():
        if isinstance(group, dict):
            piece.groups[str(group.get("pg_name", ""))] = _ranks(group.get("ranks"))
    base = _whole(file.about.get("baseTimeNanoseconds"), 0)
    kernels = piece.kernels
    if kernels and 0 < base < 1 << 62 and int(kernels.start_ns.min()) < base and int(kernels.start_ns.max()) < 1 << 62:
        piece.kernels = kernels.later(base)


def _ranks(found: Any) -> tuple[int, ...]:
    try:
        listed = json.loads(found) if isinstance(found, str) else found
    except ValueError:
        return ()
    return tuple(_whole(rank, -1) for rank in listed) if isinstance(listed, list) else ()


readers.add("kineto", Reader("kineto", "PyTorch profiler: Chrome trace JSON of a rank", recognises, read))
