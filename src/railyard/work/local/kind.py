"""Training on sites or volunteers that step alone and synchronize now and then: its steps and figures."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

from railyard.measure.cost.assumptions import of_entry
from railyard.measure.result.distributed import CauseRow, EdgeRow, LocalFigures, SiteRow
from railyard.measure.result.variants import LocalVariant
from railyard.work.local.prepare import prepare
from railyard.work.local.sync import SiteSyncTimes, break_even_bps, relay_bps, sync_times
from railyard.work.study.distributed import (
    HOUR_S,
    TERA,
    band,
    by_end,
    causes,
    cost,
    distributed_kind,
    egress_of,
    pue_of,
    sources_of,
)
from railyard.work.study.kind import MeasuredVariant, kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.measure.cost.assumptions import Source
    from railyard.measure.result.distributed import CostFigures
    from railyard.measure.result.section import Band
    from railyard.work.local.prepare import LocalJob


LEFT_OUT = (
    "the loss: what papers report of a method is quoted, never computed",
    "the step of a site is a mean: sites that are late by chance are not waited for",
    "outer updates, and encoding of what is sent, take no time",
    "transfers keep their windows between meetings (no slow start after idle)",
)
_MILLION = 1e6


def measure(job: LocalJob, times: SiteSyncTimes) -> MeasuredVariant[LocalVariant]:
    """All figures of one variant."""
    tokens = math.fsum(times.tokens_per_s)
    used = times.compute_s / times.step_s
    mean_bps = times.sent_bytes * 8.0 / (times.step_s * job.method.inner_steps)
    variant = LocalVariant(
        name=job.variant.name,
        settings=dict(job.variant.settings),
        local=LocalFigures(
            method=job.method.kind,
            sites=tuple(_site(job, times, number) for number in range(len(job.sites))),
            step_s=times.step_s,
            causes=_causes(times),
            compute_utilization=used,
            mfu=_mfu(job, tokens),
            inner_steps=job.method.inner_steps,
            exchange_s=times.exchange_s,
            sent_bytes=times.sent_bytes,
            mean_bps=mean_bps,
            relay_bps=relay_bps(job, times),
            ring=tuple(_edges(job, times)),
            break_even_bps=break_even_bps(job, times),
            tokens_per_s=tokens,
            tokens_s=job.section.tokens / tokens if job.section.tokens else None,
            cpmt=_cpmt(job, tokens, mean_bps),
            joules_per_token=_joules(job, tokens, used),
            published=tuple(str(finding) for finding in job.method.published),
        ),
        warnings=tuple(_warnings(job, times)),
        digest=hashlib.sha256(repr((times.step_s, times.tokens_per_s, times.exchange_s)).encode()).hexdigest()[:16],
    )
    return MeasuredVariant(variant, tuple(_sources(job)), LEFT_OUT, tuple(_defaults(job)))


def _causes(times: SiteSyncTimes) -> tuple[CauseRow, ...]:
    rows = [(name, seconds) for name, seconds in times.causes.items() if abs(seconds) > 1e-12 * times.step_s]
    return causes(rows, times.step_s)


def _site(job: LocalJob, times: SiteSyncTimes, number: int) -> SiteRow:
    site = job.sites[number]
    section = site.section
    rent = band(site.accelerator.rental_usd_per_h, section.accelerators * section.count)
    return SiteRow.model_validate(
        {
            "name": section.name,
            "count": section.count,
            "accelerators": section.accelerators,
            "step_s": site.step_s,
            "from": site.origin,
            "waits": max(times.waits[number], 0.0),
            "tokens_per_s": times.tokens_per_s[number],
            "usd_per_h": rent,
        }
    )


def _mfu(job: LocalJob, tokens: float) -> float:
    peak = math.fsum(site.peak_flops * site.section.count for site in job.sites)
    return tokens * job.flop_per_token / peak


def _edges(job: LocalJob, times: SiteSyncTimes) -> Iterator[EdgeRow]:
    names = [site.section.name for site in job.sites]
    for i, j in times.pairs:
        yield EdgeRow(
            source=names[i],
            target=names[j],
            rtt_s=float(job.lines.rtt_s[i, j]),
            goodput_bps=float(job.lines.goodput_bps[i, j]),
            relayed=float(job.lines.relayed[i, j]),
            relayed_bps=float((job.lines.by_relay or job.lines).goodput_bps[i, j]),
        )


def _cpmt(job: LocalJob, tokens: float, mean_bps: float) -> CostFigures:
    per_million = HOUR_S * tokens / _MILLION
    sent_tb = mean_bps / 8.0 * HOUR_S * job.members / TERA
    rents = [
        site.accelerator.rental_usd_per_h.scaled(float(site.section.accelerators * site.section.count))
        for site in job.sites
    ]
    rent = by_end(lambda end: math.fsum(getattr(each, end) for each in rents) * (1.0 / per_million))
    return cost({"rent": rent, "egress": band(egress_of(job), sent_tb / per_million)})


def _joules(job: LocalJob, tokens: float, used: float) -> Band:
    """Energy of accelerators, busy and waiting, of their share of hosts, and of cooling."""
    pue = pue_of(job)

    def joules(end: str) -> float:
        watts = 0.0
        for site in job.sites:
            each = site.accelerator
            busy, idle = getattr(each.power_w, end), getattr(each.idle_power_w, end)
            host = getattr(site.server.host_power_w, end) / site.server.accelerators
            watts += (used * busy + (1.0 - used) * idle + host) * site.section.accelerators * site.section.count
        return float(watts * getattr(pue, end) / tokens)

    return by_end(joules)


def _warnings(job: LocalJob, times: SiteSyncTimes) -> Iterator[str]:
    if times.lost > 0:
        yield f"{100 * times.lost:.1f} % of the work goes with sites that leave before they meet"
    if not job.method.published:
        return
    yield "published effects of fewer meetings on the loss cover only the quoted settings"


def _sources(job: LocalJob) -> Iterator[Source]:
    for site in job.sites:
        yield from of_entry(site.accelerator, "flops.bf16", "rental_usd_per_h", "power_w", "idle_power_w")
        yield from of_entry(site.server, "host_power_w")
    yield from sources_of(job)


def _defaults(job: LocalJob) -> Iterator[str]:
    for name in ("loss", "connections", "latency"):
        if name not in job.section.between.model_fields_set:
            yield f"between.{name}: {getattr(job.section.between, name):g}"


LOCAL = kinds.add(
    "local",
    distributed_kind(
        "local",
        "closed form",
        prepare=prepare,
        run=lambda job, _control: sync_times(job),
        measure=measure,
    ),
)
