"""Text that exporters of Prometheus serve: of DCGM, node_exporter (InfiniBand, ethtool), NCCL inspector.

A sample is `name{label="value",...} number [time]`. Who counted stands in the labels: `Hostname`, `instance`, `node` or
`host`, and `device`, `port`, `gpu` or `interface`.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from railyard.ask.observe.reader import Count, Piece, Reader, readers
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.ask.observe.sources import Source

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\S+)?(?:\s+#.*)?$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_KNOWN = ("DCGM_", "node_infiniband_", "node_ethtool_", "node_network_", "nccl_")
_WHERE, _PORT = ("Hostname", "hostname", "instance", "node", "host"), ("device", "port", "gpu", "interface")


def recognises(_: str, head: bytes) -> bool:
    """By its comments, or by a sample of a known exporter."""
    text = head.decode("utf-8", errors="replace")
    comments = "# TYPE " in text or "# HELP " in text
    return (comments and any(word in text for word in _KNOWN)) or any(
        line.startswith(_KNOWN) for line in text.splitlines()
    )


def read(source: Source) -> Piece:
    """Every sample of a known exporter.

    Raises:
        InputError: There is none.
    """
    piece, broken = Piece(source.name), 0
    for line in source.everything().decode("utf-8", errors="replace").splitlines():
        if not line.startswith(_KNOWN):
            continue
        found = _SAMPLE.match(line)
        value = _number(found[3]) if found else math.nan
        if found is None or not math.isfinite(value):
            broken += 1
            continue
        labels = dict(_LABEL.findall(found[2] or ""))
        port = " ".join(
            f"{key} {labels[key]}" if key in ("gpu", "port") else labels[key] for key in _PORT if key in labels
        )
        where = next((labels[key] for key in _WHERE if labels.get(key)), "")
        piece.counts.append(Count(where, port, found[1], value))
    if not piece.counts:
        raise InputError("no sample of a known exporter is in it", file=source.name, allowed=", ".join(_KNOWN))
    if broken:
        piece.remarks.append(f"{broken} samples are damaged or no numbers and were left out")
    return piece


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


readers.add(
    "exposition", Reader("exposition", "text of Prometheus exporters: DCGM, node_exporter, NCCL", recognises, read)
)
