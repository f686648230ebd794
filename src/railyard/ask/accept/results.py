"""Results of tests of acceptance, from files called as the tests, or that fit one test alone."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.ask.accept import counters, perftest
from railyard.ask.accept.measured import Results
from railyard.ask.accept.tests import NCCL, WRITE, Test
from railyard.ask.observe.collective_names import BUSBW
from railyard.ask.observe.readers import nccl_tests
from railyard.ask.observe.sources import Source, sources
from railyard.kit.errors import InputError, abridged, did_you_mean
from railyard.kit.table import Table, TableRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.ask.observe.reader import Timed

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
    ends = cache(lambda: counters.ends_of(tests))
    for source in sources(path):
        try:
            _one(source, tests, named, found, ends)
            found.files += 1
        except InputError as error:
            found.problems += error.problems
    if not found.files:
        allowed = "logs of nccl-tests or ib_write_bw called as the tests, counters, or a CSV with `test,value`"
        if found.problems:
            raise InputError.many(found.problems)
        raise InputError("there is no result", file=path, allowed=allowed)
    return found


def _one(
    source: Source,
    tests: Sequence[Test],
    named: dict[str, Test],
    found: Results,
    ends: Callable[[], dict[str, list[counters.End]]],
) -> None:
    text = source.everything().decode("utf-8", errors="replace")
    if counters.recognises(text):
        counters.read(text, source.name, _stem(source), ends(), found)
    elif perftest.recognises(text):
        _write(source, text, tests, named, found)
    elif nccl_tests.recognises(source.name, text[:4096].encode()):
        _nccl(source, tests, named, found)
    else:
        _table(source, text, named, found)


def _stem(source: Source) -> str:
    name = Path(source.name.rpartition(":")[2] or source.name).name
    while Path(name).suffix in (".txt", ".log", ".json", ".gz", ".out"):
        name = Path(name).stem
    return name


def _test_of(source: Source, fitting: Sequence[Test], named: dict[str, Test], what: str) -> Test:
    stem = _stem(source)
    if stem in named:
        return named[stem]
    if len(fitting) == 1:
        return fitting[0]
    words = [one.name for one in fitting[:4]] + (["..."] if len(fitting) > 4 else [])
    raise InputError(
        f"the results of {what} fit {len(fitting)} tests: call the file as its test"
        if fitting
        else f"no test is {what}",
        file=source.name,
        allowed=words or None,
        hint=did_you_mean(stem, named),
    )


def _nccl(source: Source, tests: Sequence[Test], named: dict[str, Test], found: Results) -> None:
    timings = nccl_tests.read(source).timings
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


def _agree(source: Source, test: Test, kind: str, ranks: int) -> None:
    """A log of another test under this one's name is no result of it.

    Raises:
        InputError: It is.
    """
    if test.method != NCCL or (kind and kind != test.collective) or (ranks and ranks != test.ranks):
        words = f"{kind or 'a collective'} over {ranks or 'unsaid'} ranks"
        allowed = f"{test.collective} over {test.ranks} ranks" if test.method == NCCL else test.method
        raise InputError(
            f"the file is not of the test that it is called as, `{test.name}`",
            file=source.name,
            found=words,
            allowed=allowed,
        )


def _same_factor(source: Source, test: Test, timings: Sequence[Timed]) -> None:
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
        raise InputError(
            f"the file is not of the test that it is called as, `{test.name}`",
            file=source.name,
            found=words,
            allowed=allowed,
        )


def _busbw(one: Timed, test: Test) -> float:
    """GB/s; of slow ones from the time, since nccl-tests prints two decimals."""
    if one.busbw_bps and one.busbw_bps >= COARSE_BPS:
        return one.busbw_bps / 8e9
    return one.size_bytes * BUSBW[test.collective](test.ranks) / one.seconds / 1e9


def _write(source: Source, text: str, tests: Sequence[Test], named: dict[str, Test], found: Results) -> None:
    rates = perftest.averages(text, source.name)
    test = _test_of(source, [one for one in tests if one.method == WRITE], named, WRITE)
    if test.method != WRITE:
        raise InputError(f"the file is of {WRITE}, the test is of {test.method}", file=source.name, found=test.name)
    for size, rate_bps in rates.items():
        found.add(test.name, size, rate_bps / 1e9)


def _table(source: Source, text: str, named: dict[str, Test], found: Results) -> None:
    """`test,value` and, where a test has sizes, `size_bytes`."""
    read = Table(text, source.name)
    if not set(read.columns) >= _HEADS:
        allowed = "a log of nccl-tests or ib_write_bw, or a CSV with the columns `test` and `value`"
        raise InputError("the file is no result of a test", file=source.name, found=text[:60] or None, allowed=allowed)
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
        words = "the test has no such size" if text else "the test has several sizes, and the row says none"
        raise InputError(words, key="size_bytes", found=text or None, allowed=[str(size) for size in sizes])
    return int(text)
