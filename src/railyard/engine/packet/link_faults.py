"""What faults do to links, as the packet core takes it: at times a directed link has another rate, or makes errors."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from railyard.cluster.fault import LinkErrors, LinkRate, LinkSetting
from railyard.engine.packet.faults import LinkFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.cluster.fault import Effect
    from railyard.engine.packet.placing import Placed


def link_faults(effects: Sequence[Effect], placed: Placed, slices: float) -> tuple[LinkFault, ...]:
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
