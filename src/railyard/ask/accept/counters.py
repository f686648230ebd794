"""Error counters of switches as results: `ibqueryerrors`, `perfquery`, `ethtool -I --show-fec`, SONiC's fec-stats.

Each reading begins with a line `# seconds 3600`: since the first one, or, of one alone, since counters were cleared.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from railyard.ask.accept.bit_errors import SURE, at_least, per_second
from railyard.ask.accept.tests import CABLE, COUNTERS, LOST, PRE_FEC, SYMBOLS, Test
from railyard.cluster.asbuilt.port_names import same_port
from railyard.cluster.asbuilt.reported import infiniband_counters
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.ask.accept.measured import Results

    Ports = dict[tuple[str, str], dict[str, float]]
    Ends = dict[str, list["End"]]

START = "counters-"
"""Of the names of files; then the switch, where one file is of one."""

_SECONDS = re.compile(r"^# seconds (\d{1,9})[ \t]*$", re.MULTILINE)
_ETHTOOL = re.compile(r"^FEC parameters for (\S+):", re.MULTILINE)
_BLOCKS = re.compile(r"^\s*(uncorrectable_blocks|corrected_bits): *(\d{1,20})", re.MULTILINE)
_TABLE = ("IFACE", "FEC_UNCORR", "FEC_PRE_BER")
_CORRECTED = "corrected bits"
_FULL = 65535
"""SymbolErrorCounter of 16 bits counts no further."""


def recognises(text: str) -> bool:
    """Whether it is the output of one of them."""
    head = text[:65536]
    return (
        bool(_SECONDS.search(head) or _ETHTOOL.search(head))
        or all(word in head for word in _TABLE)
        or infiniband_counters.looks_like(head)
    )


class End(NamedTuple):
    """An end of a cable, and what is judged of it.

    Attributes:
        test: Of the cable.
        part: The end as the test names it.
        port: Its port.
        per_second: Codewords or bits a second.
    """

    test: Test
    part: str
    port: str
    per_second: float


def ends_of(tests: Sequence[Test]) -> Ends:
    """All ends by their switch."""
    rates = {one.name.removeprefix(f"{CABLE}-"): one.marks[0].expected * 1e9 for one in tests if one.method == CABLE}
    out: Ends = {}
    for test in tests:
        rate = rates.get(test.name.partition("-")[2], 0.0)
        for part in test.parts[1:] if test.method == COUNTERS and rate else ():
            where, _, port = part.rpartition(":")
            out.setdefault(where, []).append(End(test, part, same_port(port), per_second(test.unit, rate)))
    return out


def read(text: str, name: str, stem: str, ends: Ends, found: Results) -> None:
    """Adds what counters of a file show of cables.

    Args:
        text: Of the file.
        name: Of it, for messages.
        stem: Of its name: `counters-` and a switch, unless the tool names devices.
        ends: All, by their switch.
        found: Takes it.

    Raises:
        InputError: It does not say for how long it counted, or no port of it is tested.
    """
    seconds, first, last = _span(text, name, stem.removeprefix(START))
    clean = infiniband_counters.healthy(text)
    nothing = {SYMBOLS: 0.0} if clean else {}  # of ports that it does not list
    seen = False
    for device in ends if clean else {device for device, _ in last} & ends.keys():
        for end in ends[device]:
            key = device, end.port
            shown = _shown(end.test, first.get(key, {}), last.get(key, nothing), seconds * end.per_second)
            if shown is not None:
                seen = True
                found.add_end(end.test.name, end.part, *shown)
    if not seen:
        allowed = [*sorted(ends)[:8], *(["..."] if len(ends) > 8 else [])]
        raise InputError("none of its ports is one of a cable that is tested", file=name, found=stem, allowed=allowed)


def _span(text: str, name: str, device: str) -> tuple[int, Ports, Ports]:
    """Seconds between the first and the last reading, and both; from cleared counters on where there is one."""
    parts = _SECONDS.split(text)
    if len(parts) < 3:
        raise InputError(
            "counters do not say for how long they counted", file=name, allowed="a line `# seconds 3600` before them"
        )
    readings = [(int(at), _ports(part, device)) for at, part in zip(parts[1::2], parts[2::2], strict=True)]
    (began, first), (ended, last) = readings[0] if len(readings) > 1 else (0, {}), readings[-1]
    if ended <= began:
        raise InputError("counters ran for no time", file=name, found=f"from {began} s to {ended} s")
    return ended - began, first, last


def _ports(text: str, device: str) -> Ports:
    """Counters by device and port."""
    out: Ports = {}
    for one in infiniband_counters.counts(text):
        if one.name == "SymbolErrorCounter":
            where = device if one.device.startswith("lid ") else one.device
            out[where, one.port] = {SYMBOLS: one.value}
    parts = _ETHTOOL.split(text)
    for port, words in zip(parts[1::2], parts[2::2], strict=True):
        names = {"uncorrectable_blocks": LOST, "corrected_bits": _CORRECTED}
        out[device, same_port(port)] = {names[name]: float(value) for name, value in _BLOCKS.findall(words)}
    return out | _table(text, device)


def _table(text: str, device: str) -> Ports:
    """Of SONiC's fec-stats; cells that say N/A are left out."""
    out: Ports = {}
    heads: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if set(_TABLE) <= set(words):
            heads = words[: words.index(_TABLE[2]) + 1]
        elif heads and len(words) >= len(heads) and not line.startswith("-"):
            cells = dict(zip(heads, words, strict=False))
            found = {unit: _number(cells[head]) for unit, head in ((LOST, _TABLE[1]), (PRE_FEC, _TABLE[2]))}
            out[device, same_port(words[0])] = {unit: value for unit, value in found.items() if value is not None}
    return out


def _number(text: str) -> float | None:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _shown(test: Test, first: dict[str, float], last: dict[str, float], tries: float) -> tuple[float, str] | None:
    """The least ratio that counters show with 95 %, and why they show too little; None where they say nothing.

    Args:
        test: Of a cable.
        first: Counters of a port at the start.
        last: Counters at the end.
        tries: Codewords or bits that came meanwhile.
    """
    if test.unit == PRE_FEC:
        if PRE_FEC in last:
            return last[PRE_FEC], ""
        if _CORRECTED not in last:
            return None
        return max(last[_CORRECTED] - first.get(_CORRECTED, 0.0), 0.0) / tries, ""
    if test.unit not in last:
        return None
    count = last[test.unit] - first.get(test.unit, 0.0)
    if count < 0 or (test.unit == SYMBOLS and last[test.unit] >= _FULL):
        count = last[test.unit]  # cleared meanwhile, or at the counter's end
    if not count:
        due = test.marks[0].high * tries
        return 0.0, "" if due >= SURE else f"counted for {due / SURE:.0%} of the time that shows it"
    return at_least(int(count)) / tries, ""
