"""Tests of acceptance against what was measured: which passed, and where to look."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from railyard.ask.accept.tests import BURN, CABLE, COUNTERS, NCCL, WRITE, size_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.ask.accept.results import Results
    from railyard.ask.accept.tests import ExpectedValue, Test


SHOWN = 4

_INSIDE = {
    "pair": "its link, its slot and its settings: `ibstat`, `lspci -vv`, MTU",
    "node": "NVLink, PCIe and clocks of the server: `nvidia-smi topo -m`, `nvidia-smi nvlink -e`",
    "rail": "switches and cables that the rail crosses: their counters, then `railyard audit`",
    "leaf": "the leaf between servers that pass alone: its counters, its queues, then `railyard audit`",
    "pod": "cables between leafs and spines: their counters, then `railyard audit`",
    "all": "cables between switches: their counters, then `railyard audit`",
}
"""Where to look when all parts of a failed test pass on their own: what joins them."""


def suspects(
    tests: Sequence[Test], passed: set[str], failed: set[str], members: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Parts to look at by the name of each failed test.

    A part is cleared by a passed test of the same method and scope, or of a larger scope, that has it. Blame is shared
    among the parts of a test that are left; a server also takes the blame of its NICs.
    """
    parts = {one.name: _parts(one, members) for one in tests if one.name in passed or one.name in failed}
    cleared: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in tests:
        if one.name in passed:
            cleared[one.method, one.scope].update(parts[one.name])
    blame: dict[str, float] = defaultdict(float)
    left: dict[str, list[str]] = {}
    for one in tests:
        if one.name in failed:
            left[one.name] = [part for part in parts[one.name] if part not in cleared[one.method, one.scope]]
            for part in left[one.name]:
                blame[part] += 1 / len(left[one.name])
                blame[part.partition(":")[0]] += (":" in part) / len(left[one.name])
    scope = {one.name: one.scope for one in tests}
    smaller = {part for name in failed if scope[name] in ("pair", "server", "node") for part in left[name]}
    return {name: _ranked(left[name], parts[name], scope[name], blame, smaller) for name in failed}


def _ranked(
    left: Sequence[str], parts: Sequence[str], scope: str, blame: Mapping[str, float], smaller: set[str]
) -> tuple[str, ...]:
    """Parts that fail on their own first; where none does, what joins them."""
    if scope in ("cable", "server", "pair"):
        chosen = sorted(left or parts, key=lambda part: -blame[part])[:SHOWN]
        return (*chosen, *([_INSIDE[scope]] if scope in _INSIDE else []))
    servers = {part.partition(":")[0] for part in smaller}
    alone = [part for part in parts if part in servers]
    if alone and scope != "node":
        near = sorted((part for part in smaller if part.partition(":")[0] in alone), key=lambda part: -blame[part])
        return tuple(near[:SHOWN])
    few = tuple(sorted(left, key=lambda part: -blame[part])[:SHOWN]) if len(left) <= SHOWN else ()
    return (*few, _INSIDE[scope])


def _parts(test: Test, members: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    if test.parts:
        return test.parts
    return tuple(members[test.hosts]) if test.hosts in members else tuple(test.hosts.split())


PASSED, FAILED, OUTSIDE, MISSING = "passed", "failed", "outside", "missing"
"""Outside: better than the band, so that the test or the scenario is not what it is taken for."""

ALIKE = 4
"""Tests alike from which on they are compared with each other."""

BEHIND = 0.05
"""Share by which one may be behind the median of similar tests, from `SURE_BYTES` on: assumed, a few times the 1 to 2 %
by which logs differ out of place and in place."""

SURE_BYTES = 1 << 24


@dataclass(frozen=True)
class JudgedTest:
    """One test at one size.

    Attributes:
        verdict: `PASSED`, `FAILED`, `OUTSIDE` or `MISSING`.
        measured: In the test's unit; None where missing.
        why: What is wrong, in words; empty where nothing is.
        look_at: Parts to look at, the likeliest first.
    """

    test: Test
    mark: ExpectedValue
    verdict: str
    measured: float | None
    why: str = ""
    look_at: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the test, with its size if it has several."""
        return f"{self.test.name} at {size_words(self.mark.size_bytes)}" if self.mark.size_bytes else self.test.name

    def plain(self) -> dict[str, object]:
        """The marks as JSON values."""
        return {
            "test": self.test.name,
            "scope": self.test.scope,
            "method": self.test.method,
            "size_bytes": self.mark.size_bytes or None,
            "verdict": self.verdict,
            "measured": self.measured,
            "expected": self.mark.expected,
            "low": self.mark.low,
            "high": self.mark.high,
            "unit": self.test.unit,
            "why": self.why,
            "look_at": list(self.look_at),
        }


def judged(tests: Sequence[Test], results: Results, members: dict[str, Sequence[str]]) -> list[JudgedTest]:
    """Every mark of every test, in their order."""
    middle = _medians(tests, results)
    found = [_one(test, mark, results, middle) for test in tests for mark in test.marks]
    failed = {one.test.name for one in found if one.verdict == FAILED}
    passed = {one.test.name for one in found if one.verdict in (PASSED, OUTSIDE)} - failed
    at = suspects(tests, passed, failed, members)
    return [replace(one, look_at=at[one.test.name]) if one.verdict == FAILED else one for one in found]


def _medians(tests: Sequence[Test], results: Results) -> dict[tuple[object, ...], float]:
    """Medians of tests of the same scope, method, collective, group size and message size."""
    alike: dict[tuple[object, ...], list[float]] = {}
    for test in tests:
        for mark in test.marks:
            values = results.values.get((test.name, mark.size_bytes))
            if values and mark.size_bytes >= SURE_BYTES / 2:
                alike.setdefault(_likeness(test, mark), []).append(median(values))
    return {key: median(values) for key, values in alike.items() if len(values) >= ALIKE}


def _likeness(test: Test, mark: ExpectedValue) -> tuple[object, ...]:
    return test.scope, test.method, test.collective, test.ranks, mark.size_bytes, round(mark.expected, 6)


def _one(test: Test, mark: ExpectedValue, results: Results, middle: dict[tuple[object, ...], float]) -> JudgedTest:
    values = results.values.get((test.name, mark.size_bytes))
    if not values:
        return JudgedTest(test, mark, MISSING, None, "not measured")
    value = median(values)
    unshown = _unshown(test, mark, results, value)
    if unshown:
        return JudgedTest(test, mark, MISSING, value, unshown)
    why = _wrong(test, mark, results, value, middle.get(_likeness(test, mark)))
    if why:
        return JudgedTest(test, mark, FAILED, value, why)
    if value > mark.high * (1 + 1e-9):
        return JudgedTest(test, mark, OUTSIDE, value, _FASTER[test.method])
    return JudgedTest(test, mark, PASSED, value)


def _unshown(test: Test, mark: ExpectedValue, results: Results, value: float) -> str:
    """Why counters that show nothing wrong do not show enough, in words; empty where they do, or it fails anyway."""
    if value > mark.high or test.name not in results.ends:
        return ""
    if len(results.ends[test.name]) < len(test.parts) - 1:
        return f"read at {', '.join(results.ends[test.name])} only"
    return results.short.get(test.name, "")


_FASTER = {NCCL: "faster than the model's band", WRITE: "faster than its link", CABLE: "faster than planned"}


def _wrong(test: Test, mark: ExpectedValue, results: Results, value: float, usual: float | None) -> str:
    """Why it fails, in words; empty where it does not."""
    wrong = results.wrong.get(test.name, 0)
    if wrong:
        return f"{wrong:,} values came out wrong"
    if test.method == BURN:
        return f"{value:g} faults" if value > mark.high else ""
    if test.method == COUNTERS:
        return f"{value:.2g} {test.unit} or more, {mark.high:.2g} are allowed" if value > mark.high else ""
    if value < mark.low * (1 - 1e-9):
        return f"{1 - value / mark.expected:.0%} below what the model expects"
    if usual is not None and value < usual * (1 - BEHIND):
        return f"{1 - value / usual:.0%} below the median of its kind"
    return ""


def common(found: Sequence[JudgedTest]) -> list[str]:
    """What is off on nearly all tests alike, in words: one cause for all, and no part."""
    alike: dict[tuple[str, str, str, int], list[JudgedTest]] = {}
    for one in found:
        if one.measured is not None and one.test.method in (NCCL, WRITE):
            alike.setdefault((one.test.scope, one.test.method, one.test.collective, one.mark.size_bytes), []).append(
                one
            )
    out = []
    for (scope, method, collective, size), those in alike.items():
        below = [one for one in those if one.measured is not None and one.measured < one.mark.low]
        if len(those) >= ALIKE and len(below) > 0.8 * len(those):
            ratio = median((one.measured or 0.0) / one.mark.expected for one in those)
            what = f"{scope} {collective or method} at {size_words(size)}"
            out.append(
                f"{what}: {len(below)} of {len(those)} are below the band, with a median of {ratio:.2f} of the"
                " expected value: suspect a setting or the model, not a part"
            )
    return out
