"""Which parts failed tests point at: those that no passed test of the same kind clears, the most blamed first."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.ask.accept.tests import Test

SHOWN = 4

_INSIDE = {
    "pair": "its link, its slot and its settings: `ibstat`, `lspci -vv`, MTU",
    "node": "NVLink, PCIe and clocks of the server: `nvidia-smi topo -m`, `nvidia-smi nvlink -e`",
    "rail": "switches and cables that the rail crosses: their counters, then `railyard audit`",
    "leaf": "the leaf between servers that pass alone: its counters, its queues, then `railyard audit`",
    "pod": "cables between leaves and spines: their counters, then `railyard audit`",
    "all": "cables between switches: their counters, then `railyard audit`",
}
"""Where to look when all parts of a failed test pass on their own: what joins them."""


def suspects(
    tests: Sequence[Test], passed: set[str], failed: set[str], members: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Parts to look at by the name of each failed test.

    A part is cleared by a passed test of the same method and scope, or of a larger scope, that has it. Blame is shared
    among the parts of a test that are left; a server also takes the blame of its NICs.

    Args:
        tests: All tests.
        passed: Names of those that did.
        failed: Names of those that did not.
        members: Servers of each list of them.
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
