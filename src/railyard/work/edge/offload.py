"""Where each kind of client had best ask: on its device, at a site near by, in the cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.measure.result.edge import OffloadFigures, OffloadRow
from railyard.measure.result.section import Band

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from railyard.measure.result.edge import PlaceRow
    from railyard.work.edge.prepare import NearUser
    from railyard.work.edge.simulate import Answers

_LEAST = 30
"""Requests of a kind at a place below which a share in time says too little to choose by."""


def offload(
    job: NearUser, places: Sequence[tuple[Answers, PlaceRow]], in_time: Callable[[Answers], NDArray[np.bool_]]
) -> OffloadFigures | None:
    """The best place of each kind of client, by device and access link.

    Args:
        job: What was asked.
        places: Those that all sites are up at, with what each would do; every one answered requests of all kinds.
        in_time: bool[requests], which requests of a place hold the bound.
    """
    able = [(one, row) for one, row in places if row.possible]
    if not able:
        return None
    shares = {row.name: _by_kind(job, one, in_time(one)) for one, row in able}
    known = {row.name: row for _, row in able}
    kinds = sorted({kind for found in shares.values() for kind in found})
    rows = []
    for kind in kinds:
        there = {name: found[kind] for name, found in shares.items() if kind in found}
        name = _best(there, known, job.section.bound.share)
        device, link = job.clients.devices[kind[0]][0].name, job.clients.links[kind[1]][0].name
        rows.append(OffloadRow(device=device, link=link, requests=_of_all(job, kind), place=name, in_time=there[name]))
    rows.sort(key=lambda row: -row.requests)
    total = sum(row.requests for row in rows)
    return OffloadFigures(
        in_time=min(sum(row.requests * row.in_time for row in rows) / total, 1.0),
        usd=_mean(rows, total, {name: row.usd for name, row in known.items()}),
        joules=_mean(rows, total, {name: row.joules for name, row in known.items()}),
        rows=tuple(rows),
    )


def _by_kind(job: NearUser, one: Answers, met: NDArray[np.bool_]) -> dict[tuple[int, int], float]:
    """Share in time by device and link, of kinds with enough requests; all of them where that is none."""
    device, link = job.clients.devices_of(one.who), job.clients.links_of(one.who)
    kinds = {(int(a), int(b)) for a, b in zip(device, link, strict=True)}
    found = {kind: met[(device == kind[0]) & (link == kind[1])] for kind in kinds}
    return {kind: float(part.mean()) for kind, part in found.items() if len(part) >= min(_LEAST, len(met))}


def _best(there: Mapping[str, float], known: Mapping[str, PlaceRow], goal: float) -> str:
    """Cheapest that holds the bound for them (of equal ones the one with more in time), else the nearest to it."""
    within = [name for name, share in there.items() if share >= goal]

    def dollars(name: str) -> tuple[float, float]:
        usd = known[name].usd
        return (0.0 if usd is None else usd.typical, -there[name])

    return min(within, key=dollars) if within else max(there, key=lambda name: there[name])


def _of_all(job: NearUser, kind: tuple[int, int]) -> float:
    devices, links = job.clients.devices, job.clients.links
    of_device = devices[kind[0]][1] / sum(share for _, share in devices)
    return of_device * links[kind[1]][1] / sum(share for _, share in links)


def _mean(rows: Sequence[OffloadRow], total: float, bands: Mapping[str, Band | None]) -> Band:
    ends = [
        sum(row.requests * getattr(bands[row.place], end, 0.0) for row in rows) / total
        for end in ("low", "typical", "high")
    ]
    return Band(low=ends[0], typical=ends[1], high=ends[2])
