"""Railyard's own CSV, from which requests come back as they were.

    arrival_ps,input_tokens,output_tokens,session,kind,block_tokens,block_hash
    0,1024,20,-1,chat,512,1f 2e

Times are integer picoseconds, hashes hexadecimal and separated by blanks.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.request_table import LAST_PS, MOST_TOKENS, NO_SESSION
from railyard.kit.errors import InputError
from railyard.kit.files import appearing
from railyard.work.serving.traces.formats import FORMATS, TraceFormat, integers, timed_lengths

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.graph.request_table import RequestTable
    from railyard.work.serving.traces.formats import Batch, LineFaults, TraceRows

_NEEDED = ("arrival_ps", "input_tokens", "output_tokens")
_OPTIONAL = ("session", "kind", "block_tokens", "block_hash")
_HASHES = re.compile(r"(?:[0-9a-f]{1,16}(?: [0-9a-f]{1,16})*)?\Z")
_KIND = re.compile(r"[^,\"\r\n\x00-\x1f]+\Z")


def _rows(batch: Batch, cells: dict[str, list[Any]], faults: LineFaults) -> TraceRows:
    hashes = [
        _split(line, text, faults) for line, text in zip(batch.numbers, cells.get("block_hash", []), strict=False)
    ]
    given = "session" in cells
    time = integers(batch, cells["arrival_ps"], "arrival_ps", faults, high=LAST_PS)
    return replace(
        timed_lengths(batch, cells, faults, names=_NEEDED, time=time),
        block_counts=np.fromiter(map(len, hashes), np.int64, len(hashes)) if hashes else None,
        block_hash=np.fromiter(chain.from_iterable(hashes), np.uint64, sum(map(len, hashes))),
        session=integers(batch, cells["session"], "session", faults, low=NO_SESSION, high=LAST_PS) if given else None,
        kind=_kinds(batch, cells["kind"], faults) if "kind" in cells else None,
        block_tokens=_block_tokens(batch, cells, faults),
    )


def _split(line: int, text: str, faults: LineFaults) -> list[int]:
    if _HASHES.match(text):
        return [int(word, 16) for word in text.split()]
    faults.add(line, "block_hash must be hexadecimal numbers separated by blanks", found=text)
    return []


def _kinds(batch: Batch, cells: list[str], faults: LineFaults) -> list[str]:
    for line, name in zip(batch.numbers, cells, strict=True):
        if not name:
            faults.add(line, "a hole: kind is empty")
    return cells


def _block_tokens(batch: Batch, cells: dict[str, list[Any]], faults: LineFaults) -> int:
    """The length of a block, which must be the same in all rows of the batch."""
    if "block_tokens" not in cells:
        return 0
    column = integers(batch, cells["block_tokens"], "block_tokens", faults, high=MOST_TOKENS)
    other = np.flatnonzero(column != column[0]) if len(column) else column
    if len(other):
        row = int(other[0])
        faults.add(
            batch.numbers[row], "block_tokens changes within the file", found=column[row], allowed=str(column[0])
        )
    return int(column[0]) if len(column) else 0


def write_trace(requests: RequestTable, path: Path) -> None:
    """Writes requests as Railyard's CSV; `read_trace` gives them back as they were.

    Raises:
        InputError: The name of a class cannot be written in a CSV file, or the file cannot be written.
    """
    for name in requests.kinds:
        if not _KIND.match(name) or name != name.strip():
            raise InputError("the name of a class cannot hold commas, quotes or ends of lines", key="kinds", found=name)
    kinds = [requests.kinds[number] for number in requests.kind.tolist()]
    hashes = [f"{value:x}" for value in requests.block_hash.tolist()]
    ends = requests.block_ptr.tolist()
    columns = (getattr(requests, name).tolist() for name in (*_NEEDED, "session"))
    rows = zip(*columns, kinds, ends, ends[1:], strict=False)
    with appearing(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="\n") as file:
        file.write(",".join((*_NEEDED, *_OPTIONAL)) + "\n")
        file.writelines(
            f"{arrival},{prompt},{answer},{session},{kind},{requests.block_tokens},{' '.join(hashes[start:end])}\n"
            for arrival, prompt, answer, session, kind, start, end in rows
        )


FORMATS.add(
    "railyard",
    TraceFormat(
        title="Railyard",
        style="csv",
        needed=_NEEDED,
        optional=_OPTIONAL,
        ps_per_tick=1,
        absolute=False,
        rows=_rows,
        source="Railyard",
    ),
)
