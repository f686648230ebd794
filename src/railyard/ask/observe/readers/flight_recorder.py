"""PyTorch flight recorder: the last collectives that a rank called, as pickle or JSON.

Keys: `version`, `rank` (from 2.9), `pg_config` (name -> {ranks, desc}), `entries` (a ring buffer: it may begin in the
middle of a run) with `process_group` (name, description), `collective_seq_id` (`seq_id` in 2.2), `profiling_name`,
`state`, `input_sizes`, `input_dtypes`. A file's rank stands in its name: `nccl_trace_rank_3`, `_dump_3`.
"""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from railyard.ask.observe import plain_pickle
from railyard.ask.observe.kernel_names import kind_of
from railyard.ask.observe.reader import COMPLETED, SCHEDULED, STARTED, Call, Piece, Reader, readers
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.ask.observe.sources import Source

_RANK = re.compile(r"(\d+)(?:\.(?:json|pkl|pickle|bin|txt|gz))*$")
_PICKLE = re.compile(rb"\x80[\x02-\x05]")


def recognises(name: str, head: bytes) -> bool:
    """By its keys, or as a pickle of any kind: a hostile one is to be refused by name."""
    if _PICKLE.match(head) or name.endswith((".pkl", ".pickle")):
        return True
    bare = head.lstrip()
    others = (b'"traceEvents"', b'"schemaVersion"', b'"distributedInfo"', b'"deviceProperties"')
    keys = (b'"entries"', b'"pg_config"', b'"pg_status"')
    return bare[:1] == b"{" and any(key in head for key in keys) and not any(key in head for key in others)


def read(source: Source) -> Piece:
    """What a rank called.

    Raises:
        InputError: The file is damaged, no dump, or a pickle of more than plain data.
    """
    dump = _loaded(source)
    if not isinstance(dump, dict) or not isinstance(dump.get("entries"), list):
        raise InputError("the file is no dump of a flight recorder: it has no list `entries`", file=source.name)
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
    if len(piece.calls) < len(dump["entries"]):
        piece.remarks.append(f"{len(dump['entries']) - len(piece.calls)} entries are no collectives and were left out")
    return piece


def _loaded(source: Source) -> Any:
    data = source.everything()
    try:
        if data.lstrip()[:1] == b"{":
            return json.loads(data)
        return plain_pickle.load(data)
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


readers.add(
    "flight-recorder",
    Reader("flight-recorder", "PyTorch flight recorder: pickle or JSON of a rank", recognises, read),
)
