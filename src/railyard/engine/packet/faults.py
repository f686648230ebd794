"""Faults in time: links that go down and come back, flap, slow down or make errors; switches that die; slow hosts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from railyard.cluster.fault import LinkErrors, LinkRate, LinkSetting
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.cluster.fault import Effect
    from railyard.engine.packet.placing import PlacedNetwork
    from railyard.engine.packet.records import PacketNetwork


_KINDS = ("rate", "errors", "pause", "obey", "mark", "headroom")

SETTINGS = _KINDS[2:]
"""Kinds that are settings of switches with priority flow control: they hold from the start."""


@dataclass(frozen=True)
class LinkFault:
    """One thing that happens to one directed link.

    Attributes:
        at_ps: When, ps.
        kind: `rate`: from now on it keeps `value` of its rate, 0 is down, 1 repaired; `errors`: of its bits the share
            `value` arrives wrong, which loses packets or, with link-level retry, delays them. Of switches that pause,
            the share that still works: `pause`: its far end pauses it before dropping; `obey`: it obeys pauses;
            `mark`: its queue marks; `headroom`: its far end's, of what it needs.
        value: In [0, 1].
    """

    at_ps: int
    link: int
    kind: Literal["rate", "errors", "pause", "obey", "mark", "headroom"]
    value: float

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise InputError("no such kind of fault", key="kind", found=self.kind, allowed=_KINDS)
        if not 0 <= self.value <= 1:
            raise InputError("a fault keeps a part of a rate", key="value", found=self.value, allowed="[0, 1]")
        if self.kind in SETTINGS and self.at_ps:
            raise InputError("a setting holds from the start", key="at_ps", found=self.at_ps, allowed=0)
        if self.at_ps < 0:
            raise InputError("a fault before the run begins", key="at_ps", found=self.at_ps, allowed="0 or more")


def both_ways(network: PacketNetwork, node: int, other: int) -> NDArray[np.int64]:
    """The links between two nodes, in both directions.

    Raises:
        InputError: There is none.
    """
    source, target = network.link_source, network.link_target
    found = np.flatnonzero(((source == node) & (target == other)) | ((source == other) & (target == node)))
    if not len(found):
        raise InputError("no link joins the two nodes", key="link", found=f"{node}-{other}")
    return found


def of_node(network: PacketNetwork, node: int) -> NDArray[np.int64]:
    """All links of a switch or host, in both directions.

    Raises:
        InputError: There is no such node.
    """
    if not 0 <= node < network.nodes:
        raise InputError("no such node", key="node", found=node, allowed=f"0 to {network.nodes - 1}")
    return np.flatnonzero((network.link_source == node) | (network.link_target == node))


def down(links: Iterable[int], at_ps: int, up_ps: int | None = None) -> list[LinkFault]:
    """Links that go down, and come back if `up_ps` says when: a cable, or (`of_node`) a switch that dies."""
    numbers = [int(link) for link in links]
    gone = [LinkFault(at_ps, link, "rate", 0.0) for link in numbers]
    return gone if up_ps is None else gone + [LinkFault(up_ps, link, "rate", 1.0) for link in numbers]


def flapping(links: Iterable[int], at_ps: int, *, down_ps: int, up_ps: int, times: int) -> list[LinkFault]:
    """Links that go down `times` times for `down_ps`, with `up_ps` between."""
    numbers = list(links)
    faults: list[LinkFault] = []
    for turn in range(times):
        begin = at_ps + turn * (down_ps + up_ps)
        faults += down(numbers, begin, begin + down_ps)
    return faults


def slow(links: Iterable[int], at_ps: int, factor: float) -> list[LinkFault]:
    """Links that keep a part of their rate: a degraded lane, or (`of_node`) a slow host."""
    return [LinkFault(at_ps, int(link), "rate", factor) for link in links]


def errors(links: Iterable[int], at_ps: int, bit_error_ratio: float) -> list[LinkFault]:
    """Links of whose bits a part arrives wrong."""
    return [LinkFault(at_ps, int(link), "errors", bit_error_ratio) for link in links]


def columns(
    faults: Iterable[LinkFault],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8], NDArray[np.float64]]:
    """Times, links, kinds and values, in the order of time."""
    rows = sorted(faults, key=lambda fault: (fault.at_ps, fault.kind not in SETTINGS, fault.link))
    return (
        np.array([row.at_ps for row in rows], np.int64),
        np.array([row.link for row in rows], np.int32),
        np.array([_KINDS.index(row.kind) for row in rows], np.uint8),
        np.array([row.value for row in rows], np.float64),
    )


def link_faults(effects: Sequence[Effect], placed: PlacedNetwork, slices: float) -> tuple[LinkFault, ...]:
    """What happens to the links of a cluster's network of packets.

    Args:
        effects: What faults do; those on ranks are left out.
        placed: The network.
        slices: Into how many slices, of which one is run, the run is cut: its times are as much shorter.
    """
    number = np.full(int(placed.link.max(initial=-1)) + 1, -1, np.int64)
    known = np.flatnonzero(placed.link >= 0)
    number[placed.link[known]] = known
    return tuple(changes(effects, number, slices))


def changes(effects: Iterable[Effect], number: NDArray[np.int64], slices: float = 1.0) -> Iterator[LinkFault]:
    """Changes of links in time; factors of what overlaps are multiplied, of errors the largest part counts.

    Args:
        effects: What faults do; those on ranks are left out.
        number: int64[links], the core's number of each link, -1 where it has none.
        slices: By which times are divided.
    """
    rates: dict[int, list[LinkRate]] = defaultdict(list)
    errors: dict[int, list[LinkErrors]] = defaultdict(list)
    for effect in effects:
        if isinstance(effect, LinkRate):
            _sort_in(rates, effect, number)
        elif isinstance(effect, LinkErrors):
            _sort_in(errors, effect, number)
        elif isinstance(effect, LinkSetting):
            yield from (LinkFault(0, link, effect.what, effect.kept) for link in _known(effect.link, number))
    for link, of_link in sorted(rates.items()):
        yield from _rates(link, of_link, slices)
    for link, of_errors in sorted(errors.items()):
        yield from _errors(link, of_errors, slices)


T = TypeVar("T", LinkRate, LinkErrors)


def _sort_in(by_link: dict[int, list[T]], effect: T, number: NDArray[np.int64]) -> None:
    for link in _known(effect.link, number):
        by_link[link].append(effect)


def _known(link: NDArray[np.int64], number: NDArray[np.int64]) -> list[int]:
    known = number[link[link < len(number)]]
    found: list[int] = known[known >= 0].tolist()
    return found


def _rates(link: int, rates: Sequence[LinkRate], slices: float) -> Iterator[LinkFault]:
    before = 1.0
    for at in _times(rates):
        now = float(np.prod([rate.factor for rate in rates if rate.spell.holds(at)]))
        if now != before:
            yield LinkFault(round(at / slices), link, "rate", now)
        before = now


def _errors(link: int, errors: Sequence[LinkErrors], slices: float) -> Iterator[LinkFault]:
    for at in _times(errors):
        worst = max((one.ratio for one in errors if one.spell.holds(at)), default=0.0)
        yield LinkFault(round(at / slices), link, "errors", worst)


def _times(effects: Sequence[LinkRate] | Sequence[LinkErrors]) -> list[int]:
    ends = [effect.spell.end_ps for effect in effects if effect.spell.end_ps is not None]
    return sorted({*(effect.spell.begin_ps for effect in effects), *ends})
