"""Chrome trace JSON as a file, which ui.perfetto.dev and chrome://tracing open.

Format: "Trace Event Format" (Chromium project): `X` events are slices, `M` metadata, `s`/`f` arrows, `C` counters;
times in microseconds. Times are cut to whole nanoseconds, start and end each by itself, so that a task that starts when
another ends never overlaps it (viewers drop overlapping slices); three decimals of a microsecond survive the viewers'
doubles up to 104 days.
"""

from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING, Any

from railyard.kit.files import appearing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

PS_PER_NS = 1000


def write_events(events: Iterable[str], path: Path, head: Mapping[str, Any]) -> None:
    """Writes a trace; the file appears complete or not at all.

    Args:
        events: Each as JSON.
        path: Where to; a name that ends in `.gz` is compressed (Perfetto opens that too).
        head: Fields of the trace besides its events, at least one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with appearing(path) as unfinished, unfinished.open("wb") as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                _write_text(events, io.TextIOWrapper(packed, encoding="utf-8"), head)
        else:
            _write_text(events, io.TextIOWrapper(raw, encoding="utf-8"), head)


def _write_text(events: Iterable[str], out: io.TextIOWrapper, head: Mapping[str, Any]) -> None:
    out.write(json.dumps(head, separators=(",", ":")).removesuffix("}") + ',"traceEvents":[\n')
    for number, line in enumerate(events):
        out.write(",\n" if number else "")
        out.write(line)
    out.write("\n]}\n")
    out.flush()
    out.detach()


def event(**fields: Any) -> str:
    """One event as JSON."""
    return json.dumps(fields, separators=(",", ":"))


def metadata(name: str, process: int, thread: int, key: str, value: str | int) -> str:
    """The name or place of a process or thread."""
    return event(ph="M", name=name, pid=process, tid=thread, args={key: value})


def microseconds(time_ns: int) -> str:
    """Nanoseconds as an exact decimal of microseconds."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"
