"""Federated learning: rounds on clients that keep their data, and the figures of one variant from its rounds."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.files import write_frame
from railyard.measure.result.distributed import (
    AccuracyFigures,
    CauseRow,
    FederatedFigures,
    GroupRow,
    ParticipationFigures,
    RoundRow,
    ServerFigures,
    SharedRow,
    TrafficFigures,
)
from railyard.measure.result.variants import FederatedVariant
from railyard.work.federated.prepare import prepare
from railyard.work.federated.simulate import simulate
from railyard.work.study.distributed import (
    HOUR_S,
    TERA,
    band,
    causes,
    cost,
    distributed_kind,
    egress_of,
    pue_of,
    sources_of,
    spread,
)
from railyard.work.study.kind import MeasuredVariant, kinds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from railyard.measure.result.distributed import CostFigures
    from railyard.work.federated.messages import Learning, RoundLog


MOST_ROWS = 2000
_SERVER_UNITS = (("line", 1e9, "Gb/s"), ("flops", 1e9, "GFLOP/s"), ("price", 1.0, "$/h"), ("power", 1.0, "W"))
LEFT_OUT = (
    "the loss: rounds are timed, not trained; a published number of rounds to an accuracy is quoted on request",
    "traffic of others on access links beyond what their measured quantiles hold",
    "memory of a client is checked for parameters, gradients and momentum, not for activations",
    "throttling of devices by heat, and what users notice of the work",
)


def measure(job: Learning, log: RoundLog) -> MeasuredVariant[FederatedVariant]:
    """All figures of one variant."""
    took = np.array(log.took_s)
    count, total = len(took), float(log.at_s[-1] + log.took_s[-1])
    mean = float(took.mean())
    variant = FederatedVariant(
        name=job.variant.name,
        settings=dict(job.variant.settings),
        federated=FederatedFigures(
            algorithm=job.scheme.algorithm.kind,
            rounds=count,
            unit="server step" if job.scheme.algorithm.buffer else "round",
            round_s=spread(took),
            total_s=total,
            causes=_causes(log, count, mean),
            participation=_participation(job, log, count),
            traffic=_traffic(job, log, count),
            server=_server(job, log, count, total, mean),
            joules=_joules(job, log, count, mean),
            usd=_usd(job, log, count, mean),
            accuracy=_accuracy(job, mean),
            series=_series(log),
        ),
        warnings=tuple(_warnings(job, log, count)),
        digest=hashlib.sha256(repr((log.at_s, log.took_s, log.used, log.up_bytes)).encode()).hexdigest()[:16],
    )
    return MeasuredVariant(variant, tuple(sources_of(job, job.clients)), LEFT_OUT, tuple(_defaults(job)))


def _causes(log: RoundLog, count: int, mean: float) -> tuple[CauseRow, ...]:
    rows = [
        (name, seconds / count) for name, seconds in log.causes.items() if abs(seconds) / count > 1e-9 * max(mean, 1e-9)
    ]
    rest = mean - sum(seconds for _, seconds in rows)
    if abs(rest) > 1e-9 * max(mean, 1e-9):
        rows.append(("rounding", rest))
    rows.sort(key=lambda row: -row[1])
    return causes(rows, max(mean, 1e-12))


def _participation(job: Learning, log: RoundLog, count: int) -> ParticipationFigures:
    return ParticipationFigures(
        selected=log.selected / count,
        used=sum(log.used) / count,
        left=sum(log.left) / count,
        late=log.late / count,
        there=log.there / count * job.clients.count,
        failed_rounds=count - sum(log.ok),
        excluded=1.0 - job.clients.able_share,
        staleness=None if log.staleness is None else spread(log.staleness),
        groups=tuple(_groups(job, log)),
    )


def _groups(job: Learning, log: RoundLog) -> Iterator[GroupRow]:
    clients = job.clients
    kinds = {
        "device": [(device.name, share) for device, share in clients.devices],
        "link": [(link.name, share) for link, share in clients.links],
        "region": [(region.name, region.share) for region in clients.regions],
    }
    hours = np.array(log.at_s)[:: max(len(log.at_s) // 48, 1)] + job.section.start * HOUR_S
    for of, rows in kinds.items():
        whole = sum(share for _, share in rows)
        there = _there(job, of, [share / whole for _, share in rows], hours)
        selected, heard = (log.counts[of][row] / max(log.counts[of][row].sum(), 1) for row in (0, 1))
        for number, (name, share) in enumerate(rows):
            yield GroupRow(
                of=of,
                name=name,
                population=share / whole,
                there=float(there[number]),
                selected=float(selected[number]),
                heard=float(heard[number]),
                bias=float(heard[number] * whole / share) if heard.sum() else None,
            )


def _there(job: Learning, of: str, shares: list[float], hours: np.ndarray) -> np.ndarray:
    """Share of each kind among available clients: regions have hours, devices memory; links do not matter."""
    weights = np.array(shares)
    if of == "region":
        offset = np.array([region.offset_s for region in job.clients.regions])
        weights = weights * job.clients.presence.share(hours[:, None] + offset).mean(axis=0)
    if of == "device" and job.clients.able:
        weights = weights * np.array(job.clients.able)
    return weights / max(float(weights.sum()), 1e-300)


def _traffic(job: Learning, log: RoundLog, count: int) -> TrafficFigures:
    sent = job.sent
    stages = (*sent.before, *sent.after)
    staged = sum(stage.up_bytes + stage.down_bytes for stage in stages)
    plain = (
        job.model.parameters * job.scheme.algorithm.client_share * job.scheme.algorithm.models_up * job.model.bits / 8.0
    )
    wider = (
        max(sent.up_bytes - plain, 0.0) if job.scheme.secrecy is not None and job.scheme.compression is None else 0.0
    )
    crossing = job.clients.mean_samples * job.section.round.epochs * sent.crossing_bytes
    return TrafficFigures(
        down_bytes=log.down_bytes / count,
        up_bytes=log.up_bytes / count,
        client_down_bytes=sent.down_bytes + sum(stage.down_bytes for stage in stages) + crossing,
        client_up_bytes=sent.up_bytes + sum(stage.up_bytes for stage in stages) + crossing,
        secrecy_bytes=staged + wider,
        wasted_share=min(log.wasted_bytes / max(log.down_bytes + log.up_bytes, 1e-9), 1.0),
    )


def _server(job: Learning, log: RoundLog, count: int, total: float, mean: float) -> ServerFigures:
    return ServerFigures(
        line_share=log.up_bytes / count * 8.0 / max(mean, 1e-12) / job.section.server.line,
        queue_s=log.queue_s / count,
        shared=tuple(SharedRow(name=name, added_s=seconds / count) for name, seconds in log.shared.items()),
        compute_s=log.server_s / count,
        updates_per_h=sum(log.used) / max(total, 1e-12) * HOUR_S,
    )


def _joules(job: Learning, log: RoundLog, count: int, mean: float) -> CostFigures:
    """Energy of devices while they compute, of radios and modems while they send, and of the server with cooling."""
    devices = [band(device.power_w, log.busy[number] / count) for number, (device, _) in enumerate(job.clients.devices)]
    radios = [band(link.power_w, log.radio[number] / count) for number, (link, _) in enumerate(job.clients.links)]
    return cost(
        {
            "devices": cost({str(at): one for at, one in enumerate(devices)}).total,
            "radios and modems": cost({str(at): one for at, one in enumerate(radios)}).total,
            "server": band(pue_of(job), job.section.server.power * mean),
        }
    )


def _usd(job: Learning, log: RoundLog, count: int, mean: float) -> CostFigures:
    server = job.section.server
    hours = (mean + job.section.round.pause) / HOUR_S
    return cost(
        {
            "server": band(server.price * hours),
            "egress": band(egress_of(job), log.down_bytes / count / TERA),
        }
    )


def _accuracy(job: Learning, mean: float) -> AccuracyFigures | None:
    row = job.curve
    if row is None:
        return None
    return AccuracyFigures(
        row=row.name,
        target=f"{row.target}, {row.work}",
        rounds=row.rounds,
        seconds=row.rounds * (mean + job.section.round.pause),
        source=row.source,
    )


def _series(log: RoundLog) -> tuple[RoundRow, ...]:
    rows = np.unique(np.linspace(0, len(log.took_s) - 1, min(len(log.took_s), MOST_ROWS)).astype(int))
    return tuple(
        RoundRow(
            at_s=float(log.at_s[row]),
            took_s=float(log.took_s[row]),
            used=int(log.used[row]),
            left=int(log.left[row]),
            ok=bool(log.ok[row]),
        )
        for row in rows
    )


def _warnings(job: Learning, log: RoundLog, count: int) -> Iterator[str]:
    failed = count - sum(log.ok)
    if failed:
        yield f"{failed:,} of {count:,} rounds were discarded: too few updates arrived"
    if job.clients.able_share < 1.0:
        yield f"{100 * (1 - job.clients.able_share):.1f} % of the clients never contribute: their devices lack memory"
    if job.sent.crossing_bytes:
        yield "the server's line is assumed never to limit activations and gradients"
    if job.curve is None:
        yield "only round time and bytes: no published result gives the rounds to an accuracy (`reach`)"
    else:
        yield from _differs(job)
    if (
        job.section.clients.regions
        and any(one.loss for one in job.section.clients.regions)
        and job.transport.name == "cubic"
    ):
        yield "packet loss limits CUBIC's goodput: compare `transport: bbr`"


def _differs(job: Learning) -> Iterator[str]:
    """A note if the published row was measured with other settings: its rounds are then not those of this job."""
    row, section = job.curve, job.section
    if row is None:
        return
    apart = []
    if row.algorithm != job.scheme.algorithm.kind:
        apart.append(f"algorithm {row.algorithm}")
    if row.participants != section.round.participants:
        apart.append(f"{row.participants} participants")
    if row.epochs != section.round.epochs:
        apart.append(f"{row.epochs:g} epochs")
    if job.scheme.compression is not None or job.scheme.privacy is not None:
        apart.append("no compression and no noise")
    if apart:
        yield (
            f"the published rounds of `{row.name}` were measured with {', '.join(apart)}: the time to its accuracy is"
            " not this scenario's"
        )


def _defaults(job: Learning) -> Iterator[str]:
    available = job.section.clients.available
    if available.by_hour is None and "most" not in available.model_fields_set:
        yield "availability: 20 % of the clients at 2 o'clock, 5 % at 14 (the ratio of Bonawitz et al. 2019)"
    for name, scale, unit in _SERVER_UNITS:
        if name not in job.section.server.model_fields_set:
            yield f"server.{name}: {getattr(job.section.server, name) / scale:g} {unit}"


def _write(folder: Path, log: RoundLog) -> None:
    """Every round as Parquet."""
    import polars as pl

    columns = {"at_s": log.at_s, "took_s": log.took_s, "used": log.used, "left": log.left, "ok": log.ok}
    write_frame(folder / "rounds.parquet", pl.DataFrame(columns))


FEDERATED = kinds.add(
    "federated", distributed_kind("federated", "rounds", prepare=prepare, run=simulate, measure=measure, write=_write)
)
