"""Prepares training on several sites: step times at each, and the lines between them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.edge.transport import goodput_bps, transports
from railyard.kit.errors import InputError
from railyard.measure.result.variants import StepVariant
from railyard.model.architecture import model_flops_per_token
from railyard.work.local.method import methods
from railyard.work.scenario import load
from railyard.work.scenario.load import blaming
from railyard.work.scenario.section import model_file
from railyard.work.study import compose
from railyard.work.study.distributed import far_s, preparing, record_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.work.local.section import BetweenSection
    from railyard.work.study.provenance import Memo

    Floats = NDArray[np.float64]
    from railyard.catalog import Catalog
    from railyard.catalog.types import Accelerator, Server
    from railyard.work.local.section import LocalSection, SiteSection
    from railyard.work.scenario.load import Draft, Variant
    from railyard.work.training.sync.local import LocalUpdates


EARTH_M = 6.371e6
_DETOUR = 2.0
"""Round trip through a relay over the direct one: a relay that lies as far from either as they from each other."""
_MOST_TRIED = 7
"""Kinds of sites whose every order is tried; more are put in order greedily."""


@dataclass(frozen=True)
class Ends:
    """A site's line.

    Attributes:
        up_bps: From it, ONE WAY.
        rtt_s: ROUND TRIP of its access.
        nat: Probability that a site of this kind cannot be reached by others.
        place: Latitude and longitude in degrees; None: the same distance to all.
    """

    up_bps: float
    down_bps: float
    rtt_s: float
    loss: float
    nat: float
    place: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class Lines:
    """Between kinds of sites; float64[kinds, kinds], from row to column; the diagonal is between two of one kind.

    Attributes:
        rtt_s: ROUND TRIP.
        goodput_bps: Of all connections together, ONE WAY.
        line_bps: The same if nothing were lost.
        relayed: Probability that a pair meets through a relay: both are behind NAT, and no hole could be punched.
        by_relay: What such a pair has; None: these lines are a relay's.
    """

    rtt_s: Floats
    goodput_bps: Floats
    line_bps: Floats
    relayed: Floats
    by_relay: Lines | None = None


def great_circle_m(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Along the surface of a sphere of the earth's mean radius (haversine)."""
    (lat, lon), (to_lat, to_lon) = (tuple(map(math.radians, place)) for place in (one, other))
    half = math.sin((to_lat - lat) / 2.0) ** 2 + math.cos(lat) * math.cos(to_lat) * math.sin((to_lon - lon) / 2.0) ** 2
    return 2.0 * EARTH_M * math.asin(math.sqrt(half))


def lines(ends: Sequence[Ends], between: BetweenSection) -> Lines:
    """Round trips and goodputs between all kinds, right and through a relay."""
    nat = np.array([one.nat for one in ends])
    relayed = np.outer(nat, nat) * (1.0 - between.punched)
    return _lines(ends, between, relayed, 1.0, _lines(ends, between, relayed, _DETOUR, None))


def _lines(
    ends: Sequence[Ends], between: BetweenSection, relayed: Floats, detour: float, by_relay: Lines | None
) -> Lines:
    count = len(ends)
    rtt, goodput, line = (np.zeros((count, count)) for _ in range(3))
    transport = transports.get(between.transport)
    most = between.relay if by_relay is None else math.inf
    for i, j in itertools.product(range(count), repeat=2):
        one, other = ends[i], ends[j]
        trip = between.latency + one.rtt_s + other.rtt_s + far_s(_distance_m(one, other, between))
        rate = min(one.up_bps, other.down_bps, between.rate or math.inf, most)
        rtt[i, j] = trip * detour
        lost = 1.0 - (1.0 - between.loss) * (1.0 - one.loss) * (1.0 - other.loss)
        each = rate / between.connections
        goodput[i, j] = between.connections * float(goodput_bps(transport, each, rtt[i, j], lost))
        line[i, j] = between.connections * float(goodput_bps(transport, each, rtt[i, j], 0.0))
    return Lines(rtt, goodput, line, relayed, by_relay)


def _distance_m(one: Ends, other: Ends, between: BetweenSection) -> float:
    if one.place is None or other.place is None:
        return between.distance
    return great_circle_m(one.place, other.place) * between.stretch


def ring(lines: Lines, counts: Sequence[int], chunk_bits: float) -> list[tuple[int, int]]:
    """Exchanges of a ring over all sites: the order of kinds whose slowest one is fastest, alike sites side by side.

    Args:
        lines: Between kinds.
        counts: Sites of each kind.
        chunk_bits: Of a message.
    """
    kinds = [kind for kind, count in enumerate(counts) if count]
    inner = [(kind, kind) for kind in kinds if counts[kind] > 1]
    if len(kinds) == 1:
        return inner
    took = chunk_bits / lines.goodput_bps + lines.rtt_s / 2.0
    orders = (
        [list(order) for order in itertools.permutations(kinds[1:])]
        if len(kinds) <= _MOST_TRIED
        else [_greedy(took, kinds)]
    )
    best = min(([kinds[0], *order] for order in orders), key=lambda order: max(took[i, j] for i, j in _around(order)))
    return [*inner, *_around(best)]


def _around(order: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(order, [*order[1:], order[0]], strict=True))


def _greedy(took: Floats, kinds: Sequence[int]) -> list[int]:
    """Greedy order from the first kind on, always to the nearest that is left."""
    left, order = list(kinds[1:]), [kinds[0]]
    while left:
        order.append(min(left, key=lambda kind: took[order[-1], kind]))
        left.remove(order[-1])
    return order[1:]


PLACE = ("workload", "local")
_PS = 1e-12


@dataclass(frozen=True, eq=False)
class TrainingSite:
    """One kind of site.

    Attributes:
        step_s: An inner step alone.
        origin: `measured`, `MFU` or `simulated`.
        peak_flops: Of all its accelerators in 16 bits.
    """

    section: SiteSection
    accelerator: Accelerator
    server: Server
    step_s: float
    origin: str
    peak_flops: float


@dataclass(frozen=True, eq=False)
class LocalJob:
    """One variant, ready to be computed.

    Attributes:
        variant: Its name, settings and scenario.
        flop_per_token: Forward and backward.
    """

    variant: Variant
    section: LocalSection
    catalog: Catalog
    parameters: float
    flop_per_token: float
    method: LocalUpdates
    sites: tuple[TrainingSite, ...]
    lines: Lines

    @property
    def members(self) -> int:
        """Sites of all kinds."""
        return sum(site.section.count for site in self.sites)

    @property
    def step_tokens(self) -> float:
        """Tokens of a step of one site."""
        return float(self.section.batch * self.section.sequence)


def _prepared(variant: Variant, catalog: Catalog, memo: Memo) -> LocalJob:
    draft = variant.draft
    section = draft.scenario.local
    with blaming(draft, *PLACE):
        parameters, flop = _size(draft, section, catalog)
    sites = tuple(_site(draft, number, catalog, flop, memo) for number in range(len(section.sites)))
    ends = [_ends(draft, number, catalog) for number in range(len(section.sites))]
    return LocalJob(
        variant=variant,
        section=section,
        catalog=catalog,
        parameters=parameters,
        flop_per_token=flop,
        method=record_of(draft, methods, section.method, *PLACE, "method"),
        sites=sites,
        lines=lines(ends, section.between),
    )


def _size(draft: Draft, section: LocalSection, catalog: Catalog) -> tuple[float, float]:
    """Parameters, and operations of a token."""
    if isinstance(section.model, str):
        model = compose.model_of(draft.folder, section.model, catalog)
        return float(model.parameters()), model_flops_per_token(model, section.sequence)
    flop = section.model.flop_per_token
    return float(section.model.parameters), 6.0 * section.model.parameters if flop is None else flop


def _site(draft: Draft, number: int, catalog: Catalog, flop: float, memo: Memo) -> TrainingSite:
    section = draft.scenario.local
    written = section.sites[number]
    with blaming(draft, *PLACE, "sites", str(number)):
        server = catalog.server(written.server)
        accelerator = catalog.accelerator(server.accelerator)
        rate = accelerator.flops.get("bf16") or accelerator.flops.get("fp16") or 0.0
        peak = written.accelerators * rate
        if peak <= 0:
            raise InputError("its accelerator has no rate in 16 bits", key="server", found=written.server)
        if written.step is not None:
            step_s, origin = written.step, "measured"
        elif written.mfu is not None:
            step_s, origin = section.batch * section.sequence * flop / (peak * written.mfu), "MFU"
        else:
            key = [section.model, section.sequence, section.batch, written.server, written.accelerators]
            step_s, origin = memo.get("step", key, partial(simulated_step_s, draft, section, written)), "simulated"
    return TrainingSite(written, accelerator, server, step_s, origin, peak)


def simulated_step_s(draft: Draft, section: LocalSection, site: SiteSection) -> float:
    """A step of training on the site's accelerators, with the best layout that fits, as `workload.training` finds it.

    Raises:
        InputError: The site cannot train the model.
    """
    from railyard.work.study import study

    name = section.model if isinstance(section.model, str) else ""
    file = model_file(draft.folder, name)
    values = {
        "name": f"step at {site.name}",
        "catalog": draft.scenario.catalog,
        "cluster": {"accelerators": site.accelerators, "server": site.server},
        "workload": {
            "training": {
                "model": name if file is None else str(file),
                "global_batch": section.batch,
                "sequence": section.sequence,
            }
        },
    }
    if values["catalog"] is None:
        del values["catalog"]
    made = load.from_values(values, None)
    alone = load.Draft(made.scenario, made.tree, draft.folder)
    result = study.run(alone, engine="flow", searched=False).result
    return float(result.of(StepVariant)[0].step.seconds)


def _ends(draft: Draft, number: int, catalog: Catalog) -> Ends:
    """The line of a site: as written, or the medians of an access link."""
    site = draft.scenario.local.sites[number]
    place = site.place
    if site.link is None:
        return Ends(site.up, site.up if site.down is None else site.down, 0.0, 0.0, nat=0.0, place=place)
    with blaming(draft, *PLACE, "sites", str(number), "link"):
        link = catalog.access_link(site.link)
    return Ends(
        link.up_bps["p50"],
        link.down_bps["p50"],
        link.rtt_ps["p50"] * _PS,
        link.loss,
        nat=link.nat,
        place=place,
    )


prepare = preparing(_prepared)
"""All variants of a scenario, ready to be computed; InputError with the place where one cannot be."""
