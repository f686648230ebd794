"""ib_write_bw and its kin (linux-rdma/perftest): the table that they print.

A row is bytes, iterations, peak and average bandwidth, message rate; the heading says whether bandwidth is in Gb/s
(`--report_gbits`) or in MB/s, which perftest counts as MiB/s.
"""

from __future__ import annotations

import re

from railyard.ask.observe.reader import is_count
from railyard.kit.errors import InputError

_HEAD = re.compile(r"#bytes\s+#iterations\s+BW peak\[(\S+?)\]\s+BW average\[(\S+?)\]")

UNITS_BPS = {"Gb/sec": 1e9, "MB/sec": 8.0 * (1 << 20), "MiB/sec": 8.0 * (1 << 20)}
"""perftest divides by 0x100000 for MB/sec."""


def recognises(text: str) -> bool:
    """Whether there is such a table."""
    return _HEAD.search(text) is not None


def averages(text: str, name: str) -> dict[int, float]:
    """bit/s by size in bytes, of the last table; of a size with several rows the last.

    Raises:
        InputError: There is no row, or the unit is not known.
    """
    heads = list(_HEAD.finditer(text))
    if not heads:
        raise InputError("there is no table of ib_write_bw", file=name)
    unit = heads[-1][2]
    if unit not in UNITS_BPS:
        raise InputError("the unit of the table is not known", file=name, found=unit, allowed=list(UNITS_BPS))
    found = {}
    for line in text[heads[-1].end() :].splitlines():
        words = line.split()
        if len(words) >= 4 and is_count(words[0]) and is_count(words[1]):
            try:
                found[int(words[0])] = float(words[3]) * UNITS_BPS[unit]
            except ValueError:
                continue
    if not found:
        raise InputError("the table of ib_write_bw has no row", file=name)
    return found
