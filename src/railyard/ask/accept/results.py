"""Results of tests of acceptance, from files called as the tests, or that fit one test alone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from railyard.ask.accept.planned import SURE, at_least, per_second
from railyard.ask.accept.tests import CABLE, COUNTERS, LOST, NCCL, PRE_FEC, SYMBOLS, WRITE, Test
from railyard.ask.observe.kernels import BUSBW
from railyard.ask.observe.reader import TraceSource, is_count, sources
from railyard.ask.observe.readers import nccl
from railyard.cluster.asbuilt.reported import switches
from railyard.cluster.network_table import same_port
from railyard.kit.errors import InputError, abridged, did_you_mean
from railyard.kit.table import Table, TableRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.ask.observe.reader import Timed
    from railyard.kit.errors import Problem

    Ports = dict[tuple[str, str], dict[str, float]]
    Ends = dict[str, list["CableEnd"]]


@dataclass
class Results:
    """Measured values.

    Attributes:
        values: By test and size; several where it was measured several times, in the test's unit.
        wrong: Tests whose data came out wrong, and how many values.
        ends: Of counters: values by test and end of the cable.
        short: Of counters: tests that they show too little for, and why.
    """

    values: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    wrong: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    files: int = 0
    ends: dict[str, dict[str, float]] = field(default_factory=dict)
    short: dict[str, str] = field(default_factory=dict)

    @property
    def unknown(self) -> bool:
        """Whether a table names a test that there is not."""
        return any(problem.key == "test" for problem in self.problems)

    def add(self, test: str, size_bytes: int, value: float) -> None:
        """One value."""
        self.values.setdefault((test, size_bytes), []).append(value)

    def add_end(self, test: str, end: str, value: float, short: str) -> None:
        """Adds the counters of a cable at one end; the worse end is the cable's."""
        ends = self.ends.setdefault(test, {})
        ends[end] = value
        self.values[test, 0] = [max(ends.values())]
        if short:
            self.short[test] = short


_HEAD = re.compile(r"#bytes\s+#iterations\s+BW peak\[(\S+?)\]\s+BW average\[(\S+?)\]")

UNITS_BPS = {"Gb/sec": 1e9, "MB/sec": 8.0 * (1 << 20), "MiB/sec": 8.0 * (1 << 20)}
"""perftest divides by 0x100000 for MB/sec."""


def is_perftest(text: str) -> bool:
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
        raise InputError("the table has an unknown unit", file=name, found=unit, allowed=list(UNITS_BPS))
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


START = "counters-"
"""Start of file names; the switch follows if a file is about one."""

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
        or switches.looks_like(head)
    )


class CableEnd(NamedTuple):
    """An end of a cable, and what is judged of it."""

    test: Test
    part: str
    port: str
    per_second: float


def ends_of(tests: Sequence[Test]) -> Ends:
    """Cable ends by their switch."""
    rates = {one.name.removeprefix(f"{CABLE}-"): one.marks[0].expected * 1e9 for one in tests if one.method == CABLE}
    out: Ends = {}
    for test in tests:
        rate = rates.get(test.name.partition("-")[2], 0.0)
        for part in test.parts[1:] if test.method == COUNTERS and rate else ():
            where, _, port = part.rpartition(":")
            out.setdefault(where, []).append(CableEnd(test, part, same_port(port), per_second(test.unit, rate)))
    return out


def read(text: str, name: str, stem: str, ends: Ends, found: Results) -> None:
    """Adds what counters of a file show of cables.

    Raises:
        InputError: It does not say for how long it counted, or no port of it is tested.
    """
    seconds, first, last = _span(text, name, stem.removeprefix(START))
    clean = switches.healthy(text)
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
        raise InputError("none of its ports belongs to a tested cable", file=name, found=stem, allowed=allowed)


def _span(text: str, name: str, device: str) -> tuple[int, Ports, Ports]:
    """Seconds between the first and the last reading, and both; from cleared counters on where there is one."""
    parts = _SECONDS.split(text)
    if len(parts) < 3:
        raise InputError("the counters lack their duration", file=name, allowed="a line `# seconds 3600` before them")
    readings = [(int(at), _ports(part, device)) for at, part in zip(parts[1::2], parts[2::2], strict=True)]
    (began, first), (ended, last) = readings[0] if len(readings) > 1 else (0, {}), readings[-1]
    if ended <= began:
        raise InputError("the duration of the counters is zero", file=name, found=f"from {began} s to {ended} s")
    return ended - began, first, last


def _ports(text: str, device: str) -> Ports:
    out: Ports = {}
    for one in switches.counts(text):
        if one.name == "SymbolErrorCounter":
            where = device if one.device.startswith("lid ") else one.device
            out[where, one.port] = {SYMBOLS: one.value}
    parts = _ETHTOOL.split(text)
    for port, words in zip(parts[1::2], parts[2::2], strict=True):
        names = {"uncorrectable_blocks": LOST, "corrected_bits": _CORRECTED}
        out[device, same_port(port)] = {names[name]: float(value) for name, value in _BLOCKS.findall(words)}
    return out | _counters_table(text, device)


def _counters_table(text: str, device: str) -> Ports:
    """Reads a table of SONiC's fec-stats; cells that say N/A are left out."""
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
    """The least ratio that counters show with 95 %, and why they show too little; None where they say nothing."""
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


_HEADS = {"test", "value"}

FACTOR_OFF = 0.02
"""Share by which busbw over algbw may be off for its digits; all-reduces over 32 and 64 ranks differ by 1.6 %."""

COARSE_BPS = 8e9
"""Busbw, in bits per second, below which the two decimals of GB/s are off by more than half a per cent."""


def collected(path: Path, tests: Sequence[Test]) -> Results:
    """All results at a path; files that cannot be read are named, and the rest is judged.

    Raises:
        InputError: There is nothing that belongs to a test.
    """
    found, named = Results(), {one.name: one for one in tests}
    ends = cache(lambda: ends_of(tests))
    for source in sources(path):
        try:
            _one(source, tests, named, found, ends)
            found.files += 1
        except InputError as error:
            found.problems += error.problems
    if not found.files:
        allowed = "logs of nccl-tests or ib_write_bw named after their tests, counters, or a CSV with `test,value`"
        if found.problems:
            raise InputError.many(found.problems)
        raise InputError("there is no result", file=path, allowed=allowed)
    return found


def _one(
    source: TraceSource,
    tests: Sequence[Test],
    named: dict[str, Test],
    found: Results,
    ends: Callable[[], dict[str, list[CableEnd]]],
) -> None:
    text = source.text()
    if recognises(text):
        read(text, source.name, _stem(source), ends(), found)
    elif is_perftest(text):
        _write(source, text, tests, named, found)
    elif nccl.is_nccl_tests(source.name, text[:4096].encode()):
        _nccl(source, tests, named, found)
    else:
        _table(source, text, named, found)


def _stem(source: TraceSource) -> str:
    name = Path(source.name.rpartition(":")[2] or source.name).name
    while Path(name).suffix in (".txt", ".log", ".json", ".gz", ".out"):
        name = Path(name).stem
    return name


def _test_of(source: TraceSource, fitting: Sequence[Test], named: dict[str, Test], what: str) -> Test:
    stem = _stem(source)
    if stem in named:
        return named[stem]
    if len(fitting) == 1:
        return fitting[0]
    words = [one.name for one in fitting[:4]] + (["..."] if len(fitting) > 4 else [])
    raise InputError(
        f"the results of {what} fit {len(fitting)} tests: name the file after its test"
        if fitting
        else f"no test is {what}",
        file=source.name,
        allowed=words or None,
        hint=did_you_mean(stem, named),
    )


def _nccl(source: TraceSource, tests: Sequence[Test], named: dict[str, Test], found: Results) -> None:
    timings = nccl.read_nccl_tests(source).timings
    kinds = {one.kind for one in timings}
    ranks, hosts = timings[0].ranks, timings[0].hosts
    kind = next(iter(kinds)) if len(kinds) == 1 else ""
    fitting = [one for one in tests if _fits(one, kind, ranks, hosts)]
    test = _test_of(source, fitting, named, f"{kind or 'a collective'} over {ranks or 'unsaid'} ranks")
    _agree(source, test, kind, ranks)
    _same_factor(source, test, timings)
    for one in timings:
        found.add(test.name, one.size_bytes, _busbw(one, test))
    wrong = sum(one.wrong for one in timings)
    if wrong:
        found.wrong[test.name] = wrong


def _fits(test: Test, kind: str, ranks: int, hosts: int) -> bool:
    same = test.method == NCCL and (not kind or test.collective == kind)
    return same and (not ranks or test.ranks == ranks) and (not hosts or test.servers == hosts)


def _agree(source: TraceSource, test: Test, kind: str, ranks: int) -> None:
    """A log of another test under this one's name is no result of it.

    Raises:
        InputError: It is.
    """
    if test.method != NCCL or (kind and kind != test.collective) or (ranks and ranks != test.ranks):
        words = f"{kind or 'a collective'} over {ranks or 'unsaid'} ranks"
        allowed = f"{test.collective} over {test.ranks} ranks" if test.method == NCCL else test.method
        raise _of_another(source, test, words, allowed)


def _same_factor(source: TraceSource, test: Test, timings: Sequence[Timed]) -> None:
    """Busbw over algbw is that of the test's collective and ranks, at the largest size, where both have most digits.

    Raises:
        InputError: It is another: the log is of another collective, or of other ranks.
    """
    one = max(timings, key=lambda timed: timed.size_bytes)
    if one.busbw_bps is None:
        return
    factor = BUSBW[test.collective](test.ranks)
    found = one.busbw_bps * one.seconds / 8 / max(one.size_bytes, 1)
    if abs(found - factor) > FACTOR_OFF * factor:
        words = f"busbw is {found:.4g} of algbw"
        allowed = f"{factor:.4g}, as {test.collective} over {test.ranks} ranks has"
        raise _of_another(source, test, words, allowed)


def _of_another(source: TraceSource, test: Test, found: str, allowed: str) -> InputError:
    message = f"the file does not belong to the test that it is named after, `{test.name}`"
    return InputError(message, file=source.name, found=found, allowed=allowed)


def _busbw(one: Timed, test: Test) -> float:
    """GB/s; of slow ones from the time, since nccl-tests prints two decimals."""
    if one.busbw_bps and one.busbw_bps >= COARSE_BPS:
        return one.busbw_bps / 8e9
    return one.size_bytes * BUSBW[test.collective](test.ranks) / one.seconds / 1e9


def _write(source: TraceSource, text: str, tests: Sequence[Test], named: dict[str, Test], found: Results) -> None:
    rates = averages(text, source.name)
    test = _test_of(source, [one for one in tests if one.method == WRITE], named, WRITE)
    if test.method != WRITE:
        raise InputError(f"the file is of {WRITE}, the test is of {test.method}", file=source.name, found=test.name)
    for size, rate_bps in rates.items():
        found.add(test.name, size, rate_bps / 1e9)


def _table(source: TraceSource, text: str, named: dict[str, Test], found: Results) -> None:
    """`test,value` and, where a test has sizes, `size_bytes`."""
    read = Table(text, source.name)
    if not set(read.columns) >= _HEADS:
        allowed = "a log of nccl-tests or ib_write_bw, or a CSV with the columns `test` and `value`"
        raise InputError("the file is not a test result", file=source.name, found=text[:60] or None, allowed=allowed)
    before = len(found.problems)
    for line, words in read.rows():
        try:
            row = read.row(line, words)
            _row(row, named, found)
        except InputError as error:
            found.problems += error.located(file=source.name, line=line).problems
    found.problems[before:] = abridged(found.problems[before:])


def _row(row: TableRow, named: dict[str, Test], found: Results) -> None:
    name = row["test"]
    if name not in named:
        allowed = None if found.unknown else list(named)  # once is enough
        raise row.wrong("test", "there is no such test", allowed=allowed, hint=did_you_mean(name, named))
    if row["value"]:
        value = row.number("value", low=0)
        found.add(name, _size(row.get("size_bytes", ""), named[name]), value)


def _size(text: str, test: Test) -> int:
    sizes = [mark.size_bytes for mark in test.marks]
    if not text and len(sizes) == 1:
        return sizes[0]
    if text not in map(str, sizes):
        words = "the test has no such size" if text else "the test has several sizes, but the row names none"
        raise InputError(words, key="size_bytes", found=text or None, allowed=[str(size) for size in sizes])
    return int(text)
