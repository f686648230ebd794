"""What a set of pods asks of a topology, and what it is given."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Requests = dict[str, int]
"""Amounts by resource; CPU in thousandths of a core."""
_TEXT = re.compile(r"([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)(?:(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)|[eE]([+-]?\d+))?")
_FACTOR = {
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{
        unit: Decimal(1000) ** power for power, unit in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
    },
}


def amount(resource: str, quantity: object) -> int:
    """A quantity as Kueue counts it: thousandths of CPU, whole units of the others, rounded up.

    Raises:
        InputError: It is no quantity.
    """
    match = _TEXT.fullmatch(str(quantity).strip())
    if not match:
        raise InputError(
            f"no quantity of {resource}", found=repr(quantity), allowed="a number with m, k, M, G, Ki, Mi, Gi or none"
        )
    number, unit, exponent = match.groups()
    value = Decimal(number) * (Decimal(10) ** int(exponent) if exponent else _FACTOR[unit or ""])
    return int((value * 1000 if resource == "cpu" else value).to_integral_value(ROUND_CEILING))


def total(*parts: Requests) -> Requests:
    """The sum of several."""
    found: Requests = {}
    for part in parts:
        for resource, value in part.items():
            found[resource] = found.get(resource, 0) + value
    return found


def times(requests: Requests, count: int) -> Requests:
    """So many times as much."""
    return {resource: value * count for resource, value in requests.items()}


@dataclass(frozen=True)
class Ask:
    """What a set of pods asks.

    Attributes:
        pods: How many.
        level: Where the search begins.
        required: Whether one group of that level has to hold all of them.
        anywhere: Whether no level was asked for.
        slices: (level, pods of a slice), from the outermost; empty: single pods.
        leaders: Pods of another kind that go where the first of them go; 0 or 1.
        least_free: Whether jobs without a level go to the nodes with least room (TASProfileMixed).
        balanced: Whether groups get equal shares where a level is preferred (TASBalancedPlacement).
        by_score: Whether groups whose nodes are preferred come first (TASRespectNodeAffinityPreferred).
    """

    pods: int
    level: int
    required: bool = False
    anywhere: bool = False
    slices: tuple[tuple[int, int], ...] = ()
    leaders: int = 0
    least_free: bool = True
    balanced: bool = False
    by_score: bool = False

    @property
    def size(self) -> int:
        """Pods of the outermost slice; 1: single pods."""
        return self.slices[0][1] if self.slices else 1

    @property
    def wanted(self) -> int:
        """How many slices."""
        return self.pods // self.size

    @property
    def tight(self) -> bool:
        """Whether groups with most room come first, and the tightest for the last part; else those with least."""
        return not (self.anywhere and self.least_free)

    @property
    def inner(self) -> dict[int, int]:
        """Pods that stay together at each level below the outermost slices."""
        found: dict[int, int] = {}
        for (above, _), (level, size) in pairwise(self.slices):
            found.update(dict.fromkeys(range(above + 1, level + 1), size))
        return found


@dataclass(frozen=True, eq=False)
class Fits:
    """What would fit on each leaf.

    Attributes:
        pods: int64[leafs], pods.
        led: int64[leafs], pods beside a leader.
        leads: int64[leafs], 1 where a leader fits.
        score: int64[leafs], how much each is preferred.
    """

    pods: NDArray[np.int64]
    led: NDArray[np.int64]
    leads: NDArray[np.int64]
    score: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Given:
    """What a set of pods gets.

    Attributes:
        pods: int64[leafs].
        leaders: int64[leafs].
    """

    pods: NDArray[np.int64]
    leaders: NDArray[np.int64]


@dataclass(frozen=True)
class Refusal:
    """Why pods have to wait.

    Attributes:
        why: In words.
        fit: How many slices (pods, where there are none) would fit.
        wanted: Of how many.
        nodes: How many nodes were looked at.
        excluded: How many of them by what: a taint, `nodeSelector`, `affinity`, `topologyDomain`, a resource.
        layers: Of several layers of slices: (slices that fit, slices wanted) of each.
    """

    why: str
    fit: int = 0
    wanted: int = 0
    nodes: int = 0
    excluded: dict[str, int] = field(default_factory=dict)
    layers: tuple[tuple[int, int], ...] = ()
