"""Common parts of studies of clients, sites and the edge: distances, populations, prices, spreads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from railyard.cluster.edge.clients import AccessNetwork, Clients, Region, SharedUplink
from railyard.cluster.edge.transport import Presence
from railyard.engine import rounds
from railyard.engine.rounds import ClientTree
from railyard.kit.errors import InputError, Problem, did_you_mean
from railyard.kit.quantities import percentile
from railyard.measure.cost.assumptions import of_entry
from railyard.measure.result.distributed import CauseRow, CostFigures, SpreadRow
from railyard.measure.result.section import Band, NamedBand
from railyard.work.scenario.load import blaming
from railyard.work.scenario.section import fields_given
from railyard.work.study import compose
from railyard.work.study.kind import F, MeasuredVariant, StudyKind
from railyard.work.study.provenance import sharing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.catalog import Catalog
    from railyard.catalog.types import Range
    from railyard.cluster.edge.transport import Floats, Ids
    from railyard.engine.rounds import Cohort
    from railyard.kit.registry import Registry
    from railyard.measure.cost.assumptions import Source
    from railyard.work.scenario.clients import AvailableSection, ClientsSection, SharedLinkSection
    from railyard.work.scenario.load import Draft, Variant
    from railyard.work.study.provenance import Memo
    from railyard.work.study.tasks import Control


P = TypeVar("P")
R = TypeVar("R")

SERVER, BACKBONE, SITE, CONCENTRATOR = TIERS = ("the server's line", "backbones", "edge sites", "concentrators")


class Senders(Protocol):
    """Clients as the tree of shared links needs them, one row each."""

    @property
    def who(self) -> Ids:
        """int64, client numbers."""

    @property
    def link(self) -> NDArray[np.intp]:
        """Index of each one's access link."""

    @property
    def region(self) -> NDArray[np.intp]:
        """Index of each one's region."""


@dataclass(frozen=True, eq=False)
class Shared:
    """Shared links in both directions.

    Attributes:
        parent: int32[links], the next link towards the server; -1: the server's line is next.
        first: int32[clients], the first shared link of each.
        up_bps: float64[links].
        down_bps: float64[links].
        tier: int64[links], index into `TIERS`.
    """

    parent: NDArray[np.int32]
    first: NDArray[np.int32]
    up_bps: Floats
    down_bps: Floats
    tier: NDArray[np.int64]

    @property
    def up(self) -> ClientTree:
        """The tree with its rates towards the server."""
        return ClientTree(self.up_bps, self.parent, self.first)

    @property
    def down(self) -> ClientTree:
        """The tree with its rates towards the clients."""
        return ClientTree(self.down_bps, self.parent, self.first)


class _Growing:
    """A tree of links, built tier by tier from the server outwards."""

    def __init__(self, line_bps: float, clients: int) -> None:
        self.parent, self.tier = [np.full(1, -1, np.int32)], [np.zeros(1, np.int64)]
        self.up, self.down = [np.array([line_bps])], [np.array([line_bps])]
        self.first = np.zeros(clients, np.int32)
        self.links = 1

    def add(self, tier: str, number: NDArray[np.int64], link: SharedUplink) -> None:
        """Adds a tier of equal links on the client side; clients with number -1 are behind none of them."""
        rows = np.flatnonzero(number >= 0)
        if not len(rows):
            return
        _, one, which = np.unique(number[rows], return_index=True, return_inverse=True)
        self.parent.append(self.first[rows[one]])
        self.tier.append(np.full(len(one), TIERS.index(tier)))
        self.up.append(np.full(len(one), link.up_bps))
        self.down.append(np.full(len(one), link.down_bps))
        self.first[rows] = (self.links + which).astype(np.int32)
        self.links += len(one)

    def grown(self) -> Shared:
        """The finished tree."""
        columns = [np.concatenate(column) for column in (self.parent, self.up, self.down, self.tier)]
        return Shared(columns[0], self.first, *columns[1:])


def shared_of(clients: Clients, rows: Senders, line_bps: float) -> Shared:
    """Links that clients share on their way to a server with a line of this rate."""
    network = clients.network
    growing = _Growing(line_bps, len(rows.who))
    if not network.shares:
        return growing.grown()
    for index, backbone in enumerate(network.backbones):
        if backbone is not None:
            growing.add(BACKBONE, np.where(rows.region == index, 0, -1), backbone)
    behind = network.concentrators_of(clients, rows.who, rows.link, rows.region)
    if network.sites is not None:
        growing.add(SITE, network.sites_of(clients, rows.who, behind, rows.region), network.sites[1])
    for kind, concentrator in enumerate(network.concentrators):
        if concentrator is not None:
            growing.add(CONCENTRATOR, np.where(rows.link == kind, behind, -1), concentrator[1])
    return growing.grown()


@dataclass(frozen=True, eq=False)
class Began:
    """Start times of transfers; float64[clients] each.

    Attributes:
        down_s: Start of the download; inf: never.
        up_s: Start of the upload; inf: never.
        stop_s: Time at which the client left; inf: never.
        counted: bool[clients], whether the update counts: both transfers ended.
    """

    down_s: Floats
    up_s: Floats
    stop_s: Floats
    counted: NDArray[np.bool_]


def added_s(cohort: Cohort, shared: Shared, sent: Began) -> dict[str, float]:
    """Mean seconds that each tier adds to an update: with it and the tiers on its client side, minus with those alone.

    Returns:
        By tier, from the clients to the server, without absent tiers. They sum to the total added by sharing.
    """
    found: dict[str, float] = {}
    if not sent.counted.any():
        return found
    last = 0.0
    for tier in range(len(TIERS) - 1, -1, -1):
        if not (shared.tier == tier).any():
            continue
        kept = shared.tier >= tier
        total = 0.0
        for start, bits, bps, rates in (
            (sent.down_s, cohort.down_bits, cohort.down_bps, shared.down_bps),
            (sent.up_s, cohort.up_bits, cohort.up_bps, shared.up_bps),
        ):
            tree = ClientTree(np.where(kept, rates, np.inf), shared.parent, shared.first)
            took = rounds.finish_s(start, bits, bps, tree, sent.stop_s)[sent.counted] - start[sent.counted]
            total += float((took - (bits / bps)[sent.counted]).mean())
        found[TIERS[tier]] = total - last
        last = total
    return found


LIGHT_S_PER_M = 4.9e-9
"""One way in fiber (group index 1.468, Corning SMF-28)."""
HOUR_S = 3600.0
TERA = 1e12


def far_s(distance_m: float) -> float:
    """ROUND TRIP of light over a length of fiber."""
    return 2.0 * distance_m * LIGHT_S_PER_M


def clients_of(draft: Draft, section: ClientsSection, catalog: Catalog, seed: int, *place: str) -> Clients:
    """The population that a section describes.

    Raises:
        InputError: A device or a link is unknown; names its place.
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


def network_of(section: ClientsSection) -> AccessNetwork:
    """The links that clients share."""
    concentrators = []
    for name in section.links:
        one = section.network.concentrators.get(name)
        concentrators.append(None if one is None else (one.clients, _shared(one)))
    sites = section.network.sites
    return AccessNetwork(
        concentrators=tuple(concentrators),
        sites=None if sites is None else (sites.each_region, _shared(sites)),
        backbones=tuple(None if one.backbone is None else _shared(one.backbone) for one in section.regions),
    )


def _shared(section: SharedLinkSection) -> SharedUplink:
    down = section.up if section.down is None else section.down
    return SharedUplink(section.up * (1.0 - section.busy), down * (1.0 - section.busy))


def presence_of(section: AvailableSection) -> Presence:
    """Availability of clients."""
    session = math.inf if section.session is None else section.session
    if section.by_hour is not None:
        return Presence(tuple(section.by_hour), session)
    return Presence.diurnal(section.most, section.least, section.peak, session)


def spread(values: NDArray[np.float64]) -> SpreadRow:
    """Mean and nearest-rank percentiles."""
    ordered = np.sort(values)
    p50, p90, p99 = (percentile(ordered, share) for share in (0.5, 0.9, 0.99))
    return SpreadRow(mean=float(values.mean()), p50=p50, p90=p90, p99=p99)


def band(value: Range | float, factor: float = 1.0) -> Band:
    """A range times a factor."""
    low, typical, high = (
        (value, value, value) if isinstance(value, int | float) else (value.low, value.typical, value.high)
    )
    return Band(low=low * factor, typical=typical * factor, high=high * factor)


def cost(parts: Mapping[str, Band]) -> CostFigures:
    """Parts and their sum."""
    rows = tuple(NamedBand(name=name, low=one.low, typical=one.typical, high=one.high) for name, one in parts.items())
    return CostFigures(parts=rows, total=by_end(lambda end: math.fsum(getattr(one, end) for one in parts.values())))


def by_end(value: Callable[[str], float]) -> Band:
    """A band from the figure at each end: `low`, `typical`, `high`."""
    return Band(low=value("low"), typical=value("typical"), high=value("high"))


def causes(seconds: Iterable[tuple[str, float]], total: float) -> tuple[CauseRow, ...]:
    """Causes of a time, in order."""
    return tuple(CauseRow(name=name, seconds=each, share=each / total) for name, each in seconds)


class DistributedJob(Protocol):
    """Common fields of all distributed jobs."""

    @property
    def variant(self) -> Variant:
        """Name, settings and scenario."""

    @property
    def catalog(self) -> Catalog:
        """Catalog of hardware and prices."""


def pue_of(job: DistributedJob) -> Range:
    """PUE of a data center."""
    return compose.economics_of(job.variant.draft, job.catalog).pue


def egress_of(job: DistributedJob) -> Range:
    """USD per TB of internet egress."""
    return job.catalog.price("internet-egress").range


def sources_of(job: DistributedJob, clients: Clients | None = None) -> Iterator[Source]:
    """Sources of the clients' devices and links, and of the egress price."""
    for entry, _ in () if clients is None else (*clients.devices, *clients.links):
        yield from of_entry(entry, *entry.provenance)
    yield from of_entry(job.catalog.price("internet-egress"), "range")


def record_of(draft: Draft, registry: Registry[Any], section: Any, *place: str) -> Any:
    """The record that a section of a scenario names; None without a section.

    Raises:
        InputError: A value is invalid; names its place.
    """
    if section is None:
        return None
    kind = registry.get(section.kind)
    record = kind(**fields_given(section, kind))
    problems = [
        Problem(words, key=f"{place[-1]}.{name}", found=found, allowed=allowed)
        for words, name, found, allowed in record.problems()
    ]
    if problems:
        raise draft.blame(InputError.many(problems), *place[:-1])
    return record


def preparing(one: Callable[[Variant, Catalog, Memo], P]) -> Callable[[Sequence[Variant], str | None], list[P]]:
    """Prepares all variants of a scenario with a function that prepares one from its catalog and shared results."""
    return sharing(lambda variant, memo: one(variant, compose.shared_catalog(variant.draft, memo), memo))


def distributed_kind(
    name: str,
    engine: str,
    *,
    prepare: Callable[[Sequence[Variant], str | None], Sequence[P]],
    run: Callable[[P, Control], R],
    measure: Callable[[P, R], MeasuredVariant[F]],
    write: Callable[[Path, R], None] | None = None,
) -> StudyKind[Draft, Variant, P, tuple[P, R], MeasuredVariant[F]]:
    """The record of a kind of distributed work, which has its own engine.

    Args:
        name: Of the kind.
        engine: Of the engine.
        prepare: Of `StudyKind`.
        run: What happens in a job.
        measure: The figures of a job in which that happened.
        write: Writes it to files of the run; None: everything is in `result.json`.
    """
    return StudyKind(
        name=name,
        check=_refuse_engine,
        prepare=prepare,
        engine=lambda _job: engine,
        run=lambda job, control: (job, run(job, control)),
        measure=lambda ran: measure(*ran),
        write=lambda folder, ran, _found: None if write is None else write(folder, ran[1]),
    )


def _refuse_engine(_draft: Draft, engine: str | None) -> None:
    if engine is not None:
        raise InputError(
            "clients, sites and the edge have an engine of their own",
            key="engine",
            found=engine,
            allowed="leave it out",
        )
