"""Which port leads where: what most switches of a tier agree on."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.asbuilt.order import natural

if TYPE_CHECKING:
    from railyard.ask.audit.design.blocks import Block
    from railyard.ask.audit.network import Found

AGREED = 0.6
"""Share of the switches that must use a port alike: at least two of them, or the only other one."""

UNKNOWN = "?"


@dataclass(frozen=True)
class PortMap:
    """Ports of a block by what they lead to.

    Attributes:
        cables: Of each pair (low, high) of device numbers, the cables that are there.
        kind: Of each lower switch, how many cables it has to an upper one: those with as many are cabled alike.
        up: Ports of lower switches of a kind that lead to each upper one, by both.
        down: Ports of upper switches that lead to each lower one.
    """

    cables: dict[tuple[int, int], list[int]]
    kind: dict[int, int]
    up: dict[tuple[int, int], list[str]]
    down: dict[int, list[str]]

    @classmethod
    def of(cls, found: Found, block: Block) -> PortMap:
        """What the switches of a block agree on."""
        inside = set(block.low.tolist()) | set(block.high.tolist())
        lows = set(block.low.tolist())
        cables: dict[tuple[int, int], list[int]] = defaultdict(list)
        kind = dict(zip(block.low.tolist(), (int(np.bincount(row).argmax()) for row in block.meant), strict=True))
        up: dict[int, dict[str, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
        down: dict[str, Counter[int]] = defaultdict(Counter)
        for number in found.between[np.isin(found.ends[found.between], list(inside)).all(axis=1)].tolist():
            one, other = found.ends[number].tolist()
            if (one in lows) == (other in lows):
                continue
            low, high = (one, other) if one in lows else (other, one)
            cables[low, high].append(number)
            up[kind[low]][found.port(number, low)][high] += 1
            down[found.port(number, high)][low] += 1
        alike = Counter(kind.values())
        agreed = {(one, high): ports for one, votes in up.items() for high, ports in _agreed(votes, alike[one]).items()}
        return cls(dict(cables), kind, agreed, _agreed(down, len(block.high)))

    def with_switch(self, device: int, ports: tuple[str, ...], *, low: bool, trunk: int) -> PortMap:
        """The same with a switch more, for which those at the far ends have some ports free.

        Args:
            device: Its number.
            ports: That are free for it.
            low: Whether it is a lower one.
            trunk: Cables that it has to each.
        """
        if low:
            return replace(self, kind={**self.kind, device: trunk}, down={**self.down, device: list(ports)})
        return replace(self, up={**self.up, **{(one, device): list(ports) for one in set(self.kind.values())}})

    def free(self, found: Found, low: int, high: int, count: int) -> list[tuple[str, str]]:
        """Ports, lower and upper, of cables that are missing between two switches; `?` where nothing is agreed on."""
        below = [port for port in self.up.get((self.kind[low], high), []) if (low, port) not in found.taken]
        above = [port for port in self.down.get(low, []) if (high, port) not in found.taken]
        pad = [UNKNOWN] * count
        return list(zip((below + pad)[:count], (above + pad)[:count], strict=True))

    def least_fitting(self, found: Found, low: int, high: int, count: int) -> list[int]:
        """The cables of a pair that fit least to what ports are for: those that are too many."""

        def fits(cable: int) -> int:
            below = found.port(cable, low) in self.up.get((self.kind[low], high), [])
            return below + (found.port(cable, high) in self.down.get(low, []))

        return sorted(self.cables[low, high], key=lambda cable: (fits(cable), cable))[:count]


def _agreed(votes: dict[str, Counter[int]], voters: int) -> dict[int, list[str]]:
    out: dict[int, list[str]] = defaultdict(list)
    for port, count in votes.items():
        where, times = count.most_common(1)[0]
        if times >= min(2, voters - 1) and times >= AGREED * count.total():
            out[where].append(port)
    return {where: sorted(ports, key=natural) for where, ports in out.items()}
