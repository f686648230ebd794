"""Which cable a tier takes: copper where it reaches, else optics at both ends with fibre between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.catalog import Cable, Catalog
    from railyard.cluster.topology.wiring import Tier

# Long links are timed by their fibre, whatever module lights them: 5.13 ns/m (the figure of PFC headroom work; a bare
# group index of 1.468 would give 4.90, and routes are longer than the straight line).
FIBRE_S_PER_M = 5.13e-9
_ORDER = {"dac": 0, "aec": 1, "optic": 2}
_COPPER = ("dac", "aec")


@dataclass(frozen=True)
class CableRun:
    """The cables of one tier.

    Attributes:
        length_m: Length of each.
        delay_ps: Propagation, one way.
        lanes: Links that share one cable: 8 lanes of a cell fabric, else 1.
        cable: Copper cable or optical module; None where the catalogue has nothing of this rate and reach.
        fibre: Fibre between two modules; None with copper.
        twin: Module that serves two of these links from one cage; None where there is none.
    """

    length_m: float
    delay_ps: int
    lanes: int
    cable: Cable | None
    fibre: Cable | None
    twin: Cable | None


def choose(
    catalog: Catalog, rate_bps: float, tier: Tier, length_m: float | None, *, lanes: int = 1, key: str
) -> CableRun:
    """The simplest cable that carries the rate over the length.

    Args:
        catalog: Where cables are looked up.
        rate_bps: Rate of a link of the tier, bit/s.
        tier: The tier; gives the length unless `length_m` does.
        length_m: Length asked for, or None.
        lanes: Links of that rate that share one cable.
        key: Key of the length, for messages.

    Raises:
        InputError: The length is not positive.
    """
    length = tier.length_m if length_m is None else length_m
    if not length > 0:
        raise InputError("a cable has a length", key=key, found=length)
    found = _fitting(catalog, rate_bps * lanes, length)
    delay_s = length * (FIBRE_S_PER_M if found is None or tier.kind == "long" else found.delay_s_per_m)
    fibre = catalog.cable(found.fibre) if found is not None and found.fibre else None
    twin = catalog.cable(found.twin) if found is not None and found.twin and lanes == 1 else None
    return CableRun(length, round(delay_s * 1e12), lanes, found, fibre, twin)


def _fitting(catalog: Catalog, rate_bps: float, length_m: float) -> Cable | None:
    """The cable with the simplest kind, then the lowest sufficient rate, then the shortest sufficient reach."""
    cables = (catalog.cable(name) for name in catalog.names("cable"))
    fit = [
        cable
        for cable in cables
        if cable.kind in _ORDER and cable.rate_bps >= rate_bps * (1 - 1e-9) and cable.reach_m >= length_m
    ]
    return min(fit, key=lambda cable: (_ORDER[cable.kind], cable.rate_bps, cable.reach_m, cable.name), default=None)


def copper_reach_m(catalog: Catalog, rate_bps: float) -> float:
    """Longest copper cable (passive or active) of a rate, m; 0 where there is none.

    Args:
        catalog: Where cables are looked up.
        rate_bps: Rate that one cable carries, bit/s.
    """
    cables = (catalog.cable(name) for name in catalog.names("cable"))
    fit = [cable.reach_m for cable in cables if cable.kind in _COPPER and cable.rate_bps >= rate_bps * (1 - 1e-9)]
    return max(fit, default=0.0)
