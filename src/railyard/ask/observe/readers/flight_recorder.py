"""PyTorch flight recorder: the last collectives that a rank called, as pickle or JSON.

Keys: `version`, `rank` (from 2.9), `pg_config` (name -> {ranks, desc}), `entries` (a ring buffer: it may begin in the
middle of a run) with `process_group` (name, description), `collective_seq_id` (`seq_id` in 2.2), `profiling_name`,
`state`, `input_sizes`, `input_dtypes`. A file's rank is in its name: `nccl_trace_rank_3`, `_dump_3`.
"""

from __future__ import annotations

import json
import pickletools
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from railyard.ask.observe.kernels import kind_of
from railyard.ask.observe.reader import COMPLETED, SCHEDULED, STARTED, Call, Piece, Reader, readers
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.ask.observe.reader import TraceSource


MOST_INSTRUCTIONS = 50_000_000

_MARK = object()
_VALUES = {
    "INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES",
    "BINBYTES8",
}  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_GETS, _PUTS = {"GET", "BINGET", "LONG_BINGET"}, {"PUT", "BINPUT", "LONG_BINPUT"}


def load(data: bytes) -> Any:
    """The value of a pickle of plain data.

    Raises:
        InputError: It is damaged, or would do something else than make plain data.
    """
    machine = _Machine()
    try:
        for count, (instruction, argument, _) in enumerate(pickletools.genops(data)):
            if count > MOST_INSTRUCTIONS:
                raise InputError("the pickle is too long", allowed=f"{MOST_INSTRUCTIONS} instructions")
            if instruction.name == "STOP":
                return machine.pop()
            machine.step(instruction.name, argument)
    except InputError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        raise InputError(f"the pickle is damaged: {error}") from None
    raise InputError("the pickle is damaged: it does not end")


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memory: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        if name in _VALUES:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            self.stack.append(_EMPTY[name]())
        elif name in _GETS:
            self.stack.append(self.memory[int(argument)])
        elif name in _PUTS:
            self.memory[int(argument)] = self.stack[-1]
        else:
            self._gathers(name)

    def _gathers(self, name: str) -> None:
        if name in _TUPLES:
            count = _TUPLES[name]
            self.stack[-count:] = [tuple(self.stack[-count:])]
        elif name == "MARK":
            self.stack.append(_MARK)
        elif name == "MEMOIZE":
            self.memory[len(self.memory)] = self.stack[-1]
        elif name in ("APPEND", "SETITEM"):
            self._one(name)
        elif name in ("APPENDS", "SETITEMS", "LIST", "TUPLE", "DICT"):
            self._many(name)
        elif name == "POP":
            self.pop()
        elif name not in ("PROTO", "FRAME"):
            raise InputError(f"the pickle would run code (`{name}`): it is not run", found=name)

    def _one(self, name: str) -> None:
        value = self.pop()
        if name == "APPEND":
            self._last(list).append(value)
        else:
            key = self.pop()
            self._last(dict)[key] = value

    def _many(self, name: str) -> None:
        items = self._since_mark()
        if name == "APPENDS":
            self._last(list).extend(items)
        elif name == "LIST":
            self.stack.append(items)
        elif name == "TUPLE":
            self.stack.append(tuple(items))
        else:
            pairs = dict(zip(items[::2], items[1::2], strict=True))
            if name == "DICT":
                self.stack.append(pairs)
            else:
                self._last(dict).update(pairs)

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise ValueError("the stack is empty")
        return self.stack.pop()

    def _last(self, kind: type) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise TypeError(f"expected a {kind.__name__}")
        return self.stack[-1]

    def _since_mark(self) -> list[Any]:
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _MARK:
                items = self.stack[at + 1 :]
                del self.stack[at:]
                return items
        raise ValueError("there is no mark")


_RANK = re.compile(r"(\d+)(?:\.(?:json|pkl|pickle|bin|txt|gz))*$")
_PICKLE = re.compile(rb"\x80[\x02-\x05]")


def _is_flight_recorder(name: str, head: bytes) -> bool:
    """Recognises its keys, and a pickle of any kind: a hostile one is to be refused by name."""
    if _PICKLE.match(head) or name.endswith((".pkl", ".pickle")):
        return True
    bare = head.lstrip()
    others = (b'"traceEvents"', b'"schemaVersion"', b'"distributedInfo"', b'"deviceProperties"')
    keys = (b'"entries"', b'"pg_config"', b'"pg_status"')
    return bare[:1] == b"{" and any(key in head for key in keys) and not any(key in head for key in others)


def _read_flight_recorder(source: TraceSource) -> Piece:
    """Reads the calls of a rank.

    Raises:
        InputError: The file is damaged, no dump, or a pickle of more than plain data.
    """
    dump = _loaded(source)
    if not isinstance(dump, dict) or not isinstance(dump.get("entries"), list):
        raise InputError("the file is not a dump of a flight recorder: it has no list `entries`", file=source.name)
    piece = Piece(source.name, rank=_rank(source.name, dump))
    if piece.rank is None:
        raise InputError(
            "neither the dump nor its name says whose it is", file=source.name, allowed="a name such as dump_3"
        )
    configured = dump.get("pg_config")
    for name, config in configured.items() if isinstance(configured, dict) else ():
        piece.groups[str(name)] = _members(config)
    piece.world = max((max(ranks) + 1 for ranks in piece.groups.values() if ranks), default=0)
    entries = [entry for entry in dump["entries"] if isinstance(entry, dict)]
    piece.calls = [call for entry in entries if (call := _call(piece.rank, entry)) is not None]
    piece.note(len(dump["entries"]) - len(piece.calls), "entries are not collectives and were left out")
    return piece


def _loaded(source: TraceSource) -> Any:
    data = source.everything()
    try:
        if data.lstrip()[:1] == b"{":
            return json.loads(data)
        return load(data)
    except InputError as error:
        raise error.located(file=source.name) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"the file is damaged: {error}", file=source.name) from None


def _rank(name: str, dump: dict[Any, Any]) -> int | None:
    said = dump.get("rank")
    if isinstance(said, int) and not isinstance(said, bool) and said >= 0:
        return said
    named = _RANK.search(PurePath(name).name)
    return int(named[1]) if named else None


def _members(config: Any) -> tuple[int, ...]:
    found = config.get("ranks") if isinstance(config, dict) else None
    try:
        listed = json.loads(found) if isinstance(found, str) else found
    except ValueError:
        return ()
    if not isinstance(listed, list | tuple) or not all(isinstance(rank, int) and rank >= 0 for rank in listed):
        return ()
    return tuple(listed)


def _call(rank: int, entry: dict[Any, Any]) -> Call | None:
    sequence = entry.get("collective_seq_id", entry.get("seq_id"))
    if not isinstance(sequence, int) or entry.get("is_p2p") is True:
        return None
    group = entry.get("process_group", entry.get("pg_name", entry.get("pg_id", "")))
    name = str(entry.get("profiling_name", ""))
    state = str(entry.get("state", SCHEDULED))
    return Call(
        rank=rank,
        group=str(group[0]) if isinstance(group, list | tuple) and group else str(group),
        sequence=sequence,
        name=kind_of(name) or name,
        state=state if state in (COMPLETED, STARTED) else SCHEDULED,
        shape=_shape(entry),
    )


def _shape(entry: dict[Any, Any]) -> str:
    """Sizes and types of a call's input; of collectives with uneven inputs nothing, for they may differ."""
    uneven = ("all_to_all", "all_gather", "gather", "scatter", "reduce_scatter")
    if kind_of(str(entry.get("profiling_name", ""))) in uneven:
        return ""
    parts = [entry.get("input_sizes"), entry.get("input_dtypes")]
    return " ".join(json.dumps(part, default=str) for part in parts if isinstance(part, list | tuple))


readers.enter(
    Reader(
        "flight-recorder",
        "PyTorch flight recorder: pickle or JSON of a rank",
        _is_flight_recorder,
        _read_flight_recorder,
    ),
)
