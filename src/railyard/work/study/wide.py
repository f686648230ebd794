"""What studies of clients, sites and the edge share: distances, populations, prices, spreads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.edge.clients import Clients, Region
from railyard.cluster.edge.network import Network, SharedLink
from railyard.cluster.edge.presence import Presence
from railyard.kit.errors import InputError, did_you_mean
from railyard.measure.result.section import Band, NamedBand
from railyard.measure.result.wide import CostFigures, SpreadRow
from railyard.work.scenario.load import blaming

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railyard.catalog import Catalog
    from railyard.catalog.types import Range
    from railyard.work.scenario.clients import AvailableSection, ClientsSection, SharedLinkSection
    from railyard.work.scenario.load import Draft

LIGHT_S_PER_M = 4.9e-9
"""One way in fibre (group index 1.468, Corning SMF-28)."""
HOUR_S = 3600.0
TERA = 1e12
JOULES_PER_KWH = 3.6e6


def far_s(distance_m: float) -> float:
    """ROUND TRIP of light over a length of fibre."""
    return 2.0 * distance_m * LIGHT_S_PER_M


def clients_of(draft: Draft, section: ClientsSection, catalog: Catalog, seed: int, *place: str) -> Clients:
    """The population that a section describes.

    Raises:
        InputError: A device or a link is unknown; with its place.
    """
    devices, links = [], []
    for name, share in section.devices.items():
        with blaming(draft, *place, "devices", name):
            devices.append((catalog.device(name), share))
    for name, share in section.links.items():
        with blaming(draft, *place, "links", name):
            links.append((catalog.access_link(name), share))
    for name in section.network.concentrators:
        with blaming(draft, *place, "network", "concentrators", name):
            _require_link(name, section)
    regions = tuple(
        Region(one.name, one.share, one.time_zone * HOUR_S, far_s(one.distance), one.loss) for one in section.regions
    )
    return Clients(
        count=section.count,
        devices=tuple(devices),
        links=tuple(links),
        regions=regions,
        presence=presence_of(section.available),
        mean_samples=section.samples.mean,
        sample_spread=section.samples.spread,
        seed=seed,
        network=network_of(section),
    )


def _require_link(name: str, section: ClientsSection) -> None:
    if name not in section.links:
        raise InputError(
            f"concentrators of `{name}`, a link that no client has",
            allowed=list(section.links),
            hint=did_you_mean(name, section.links),
        )


def network_of(section: ClientsSection) -> Network:
    """What clients share."""
    concentrators = []
    for name in section.links:
        one = section.network.concentrators.get(name)
        concentrators.append(None if one is None else (one.clients, _shared(one)))
    sites = section.network.sites
    return Network(
        concentrators=tuple(concentrators),
        sites=None if sites is None else (sites.each_region, _shared(sites)),
        backbones=tuple(None if one.backbone is None else _shared(one.backbone) for one in section.regions),
    )


def _shared(section: SharedLinkSection) -> SharedLink:
    down = section.up if section.down is None else section.down
    return SharedLink(section.up * (1.0 - section.busy), down * (1.0 - section.busy))


def presence_of(section: AvailableSection) -> Presence:
    """When clients are there."""
    session = math.inf if section.session is None else section.session
    if section.by_hour is not None:
        return Presence(tuple(section.by_hour), session)
    return Presence.diurnal(section.most, section.least, section.peak, session)


def spread(values: NDArray[np.float64]) -> SpreadRow:
    """Mean and nearest-rank percentiles."""
    ordered = np.sort(values)
    at = {
        name: float(ordered[max(math.ceil(q * len(ordered)) - 1, 0)])
        for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
    }
    return SpreadRow(mean=float(values.mean()), **at)


def band(value: Range | float, factor: float = 1.0) -> Band:
    """A range times a factor."""
    low, typical, high = (
        (value, value, value) if isinstance(value, int | float) else (value.low, value.typical, value.high)
    )
    return Band(low=low * factor, typical=typical * factor, high=high * factor)


def cost(parts: Mapping[str, Band]) -> CostFigures:
    """Parts and their sum."""
    rows = tuple(NamedBand(name=name, low=one.low, typical=one.typical, high=one.high) for name, one in parts.items())
    total = Band(
        low=math.fsum(one.low for one in parts.values()),
        typical=math.fsum(one.typical for one in parts.values()),
        high=math.fsum(one.high for one in parts.values()),
    )
    return CostFigures(parts=rows, total=total)


def refuse_engine(_draft: Draft, engine: str | None) -> None:
    """Refuses every engine: rounds and meetings have one of their own.

    Raises:
        InputError: One was asked for.
    """
    if engine is not None:
        raise InputError(
            "clients, sites and the edge have an engine of their own",
            key="engine",
            found=engine,
            allowed="leave it out",
        )
