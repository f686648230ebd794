"""A model that answers in a cloud, at sites at the edge, or on the device: which place meets the bound, and costs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from railyard.kit.files import write_frame
from railyard.measure.cost.assumptions import of_entry
from railyard.measure.result.distributed import EdgeFigures, OffloadFigures, OffloadRow, PlaceRow
from railyard.measure.result.variants import EdgeVariant
from railyard.work.edge.prepare import prepare
from railyard.work.edge.simulate import DEVICE, simulate
from railyard.work.study.distributed import (
    HOUR_S,
    TERA,
    band,
    by_end,
    causes,
    distributed_kind,
    egress_of,
    pue_of,
    sources_of,
    spread,
)
from railyard.work.study.kind import MeasuredVariant, kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from railyard.measure.cost.assumptions import Source
    from railyard.measure.result.section import Band
    from railyard.work.edge.prepare import NearUser
    from railyard.work.edge.section import BoundSection
    from railyard.work.edge.simulate import Answers


_LEAST = 30
"""Requests of a kind at a place below which a share in time says too little to choose by."""


def offload(
    job: NearUser, places: Sequence[tuple[Answers, PlaceRow]], in_time: Callable[[Answers], NDArray[np.bool_]]
) -> OffloadFigures | None:
    """The best place of each kind of client, by device and access link.

    Args:
        job: The requests.
        places: Those that all sites are up at, with what each would do; every one answered requests of all kinds.
        in_time: bool[requests], requests of a place that meet the bound.
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
    """The cheapest that meets the bound for them (ties: the one with more in time), else the closest to it."""
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
    return by_end(lambda end: sum(row.requests * getattr(bands[row.place], end, 0.0) for row in rows) / total)


LEFT_OUT = (
    "each place is shown as if it answered all requests; clients are present as at noon UTC",
    "an answer streams at generation speed: slower access links are not modelled",
    "shared links delay requests, but do not change in which order a place gets them; a place has a line of its own",
    "devices answer one request at a time and run nothing else; heating is not modelled",
    "what a smaller model or fewer bits do to answers",
)


def measure(job: NearUser, answers: Sequence[Answers]) -> MeasuredVariant[EdgeVariant]:
    """All figures of one variant."""
    rows = tuple(_row(job, one) for one in answers)
    up = [(one, row) for one, row in zip(answers, rows, strict=True) if not row.name.endswith("one site down")]
    normal = [row for _, row in up]
    choice = min(
        (row for row in normal if row.within), key=lambda row: 0.0 if row.usd is None else row.usd.typical, default=None
    )
    variant = EdgeVariant(
        name=job.variant.name,
        settings=dict(job.variant.settings),
        edge=EdgeFigures(
            bound=_words(job.section.bound),
            choice=None if choice is None else choice.name,
            reason=_reason(job, normal, choice),
            places=rows,
            offload_share=_offload(job, answers, choice),
            offload=offload(job, up, lambda one: _in_time(job.section.bound, one)),
        ),
        warnings=tuple(_warnings(rows)),
        digest=hashlib.sha256(b"".join(one.e2e_s.tobytes() for one in answers)).hexdigest()[:16],
    )
    return MeasuredVariant(variant, tuple(_sources(job)), LEFT_OUT, ())


def _words(bound: BoundSection) -> str:
    parts = [
        f"{name.upper()} within {value:g} s" for name, value in (("ttft", bound.ttft), ("e2e", bound.e2e)) if value
    ]
    return f"{' and '.join(parts)} for {100 * bound.share:g} % of the requests"


def _in_time(bound: BoundSection, one: Answers) -> np.ndarray:
    met = one.answered.copy()
    if bound.ttft is not None:
        met &= one.ttft_s <= bound.ttft
    if bound.e2e is not None:
        met &= one.e2e_s <= bound.e2e
    return met


def _row(job: NearUser, one: Answers) -> PlaceRow:
    possible = bool(one.answered.any())
    share = float(_in_time(job.section.bound, one).mean()) if possible else None
    done = one.answered
    total = sum(one.parts_s.values())
    return PlaceRow(
        name=one.name,
        possible=possible,
        why_not=one.why_not,
        ttft_s=spread(one.ttft_s[done]) if possible else None,
        e2e_s=spread(one.e2e_s[done]) if possible else None,
        in_time=share,
        within=share is not None and share >= job.section.bound.share,
        causes=causes(one.parts_s.items(), total),
        up_bytes=one.up_bytes,
        down_bytes=one.down_bytes,
        accelerators=0 if one.place is None else one.place.section.replicas * one.place.section.tp * one.place.sites,
        joules=_joules(job, one) if possible else None,
        usd=_usd(job, one) if possible else None,
        leaves=_leaves(one),
    )


def _joules(job: NearUser, one: Answers) -> Band:
    """Energy per request: the place's power with cooling over its rate, and the link's energy; or the device's."""
    pue = pue_of(job)

    def joules(end: str) -> float:
        found = getattr(one.device_j, end) + getattr(one.link_w, end) * one.radio_s
        if one.measured is not None and one.place is not None:
            watts = getattr(one.measured.variant.serving.power.it_w, end)
            found += watts * one.place.sites * getattr(pue, end) / job.section.requests.rate
        return float(found)

    return by_end(joules)


def _usd(job: NearUser, one: Answers) -> Band:
    """Cost per request: rent of the accelerators over the rate, and egress."""
    if one.place is None:
        return band(0.0)
    egress = egress_of(job)
    count = one.place.section.replicas * one.place.section.tp * one.place.sites
    rent = one.place.accelerator.rental_usd_per_h
    per_hour = job.section.requests.rate * HOUR_S
    return by_end(lambda end: getattr(rent, end) * count / per_hour + getattr(egress, end) * one.down_bytes / TERA)


def _leaves(one: Answers) -> str:
    if one.place is None:
        return "nothing: the prompt stays on the device"
    where = "one of" if one.place.sites > 1 else "the only one of"
    return f"all of the prompt, to {where} {one.place.sites} sites, whose operator can read it"


def _reason(job: NearUser, rows: Sequence[PlaceRow], choice: PlaceRow | None) -> str:
    bound = _words(job.section.bound)
    if choice is None:
        best = max((row for row in rows if row.in_time is not None), key=lambda row: row.in_time or 0.0, default=None)
        if best is None:
            return f"No place can answer: {rows[0].why_not}."
        return f"No place meets {bound}; {best.name} comes nearest, with {100 * (best.in_time or 0.0):.1f} %."
    missed = [f"{row.name} ({100 * (row.in_time or 0.0):.1f} %)" for row in rows if not row.within]
    others = [row.name for row in rows if row.within and row.name != choice.name]
    words = f"Answer at place {choice.name}: it meets {bound}"
    words += f", and costs less than {', '.join(others)}" if others else ""
    return f"{words}; {', '.join(missed)} {'does' if len(missed) == 1 else 'do'} not." if missed else f"{words}."


def _offload(job: NearUser, answers: Sequence[Answers], choice: PlaceRow | None) -> float | None:
    """Requests for which a device misses the bound and the choice meets it; the same clients use both."""
    device = next((one for one in answers if one.name == DEVICE and one.answered.any()), None)
    other = next((one for one in answers if choice is not None and one.name == choice.name), None)
    if device is None or other is None or choice is None or choice.name == DEVICE:
        return None if device is None else 0.0
    count = min(len(device.answered), len(other.answered))
    bound = job.section.bound
    missed, held = ~_in_time(bound, device)[:count], _in_time(bound, other)[:count]
    return float((missed & held).mean())


def _warnings(rows: Sequence[PlaceRow]) -> Iterator[str]:
    for row in rows:
        if row.why_not is not None:
            yield f"{row.name}: {row.why_not}"
    for row in rows:
        down = next((one for one in rows if one.name == f"{row.name}, one site down"), None)
        if row.within and down is not None and not down.within:
            share = 0.0 if down.in_time is None else down.in_time
            yield f"{row.name} meets the bound, but not with one site down ({100 * share:.1f} % of the requests)"


def _sources(job: NearUser) -> Iterator[Source]:
    for place in job.places:
        yield from of_entry(place.accelerator, "rental_usd_per_h", "power_w")
    yield from sources_of(job, job.clients)


def _write(folder: Path, answers: tuple[Answers, ...]) -> None:
    """Every request at every place as Parquet."""
    import polars as pl

    tables = [
        pl.DataFrame(
            {"place": [one.name] * len(one.e2e_s), "ttft_s": one.ttft_s, "e2e_s": one.e2e_s, "done": one.answered},
            schema_overrides={"place": pl.String},  # a place may have no answers
        )
        for one in answers
    ]
    write_frame(folder / "answers.parquet", pl.concat(tables))


EDGE = kinds.add(
    "edge", distributed_kind("edge", "serving", prepare=prepare, run=simulate, measure=measure, write=_write)
)
