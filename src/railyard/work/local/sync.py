"""Step time of training on several sites in closed form: inner steps, synchronization, and waiting for the slowest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.edge.transport import transports
from railyard.work.local.method import BACKWARD
from railyard.work.local.prepare import ring
from railyard.work.training.sync.local import exposed_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.work.local.prepare import Lines, LocalJob

    Floats = NDArray[np.float64]

_STOPS = 1e-6


@dataclass(frozen=True, eq=False)
class SiteSyncTimes:
    """Time per step of training on several sites that synchronize their parameters.

    Attributes:
        step_s: Mean inner step of a site, with its share of the synchronizations.
        compute_s: The inner step alone, mean over sites.
        causes: Seconds of `step_s` by cause; they add up to it.
        exchange_s: One exchange of all parameters.
        sent_bytes: What a site sends in one exchange.
        exposed_s: What the exchange adds to a step.
        tokens_per_s: Per kind of site, all sites of the kind.
        waits: Share of each kind's time that is not computation.
        pairs: Kinds of sites that exchange with one another.
        lost: Share of the work lost with sites that leave before they synchronize.
    """

    step_s: float
    compute_s: float
    causes: dict[str, float]
    exchange_s: float
    sent_bytes: float
    exposed_s: float
    tokens_per_s: tuple[float, ...]
    waits: tuple[float, ...]
    pairs: tuple[tuple[int, int], ...]
    lost: float


def sync_times(job: LocalJob) -> SiteSyncTimes:
    """Step time by the closed form of the way in which the method synchronizes."""
    kind = job.method.partners
    if kind == "server":
        return _apart(job, [_to_server(job, site) for site in range(len(job.sites))], _server_pairs(job))
    if kind == "pairs":
        return _apart(job, [_to_peers(job, site) for site in range(len(job.sites))], _all_pairs(job))
    return _in_step(job, present=kind == "present")


def size_bits(job: LocalJob) -> float:
    """All parameters as sent."""
    return job.parameters * job.method.bits


def ring_s(job: LocalJob, members: float, bits: float) -> tuple[float, float, float, list[tuple[int, int]]]:
    """An all-reduce by a ring over the slowest exchange: seconds of bits, of bits if nothing were lost, of distance.

    2 (n - 1) messages of a n-th each; every site sends and receives at once, and all go at the pace of the slowest.
    """
    counts = [site.section.count for site in job.sites]
    chunk = bits / members
    pairs = ring(job.lines, counts, chunk)
    messages = 2.0 * (members - 1.0)
    found = [0.0, 0.0, 0.0]
    for chance, (sent, unlost, far) in _slowest(job, pairs, counts, chunk):
        for number, seconds in enumerate((sent, unlost, far)):
            found[number] += chance * messages * seconds
    return found[0], found[1], found[2], pairs


def _slowest(
    job: LocalJob, pairs: list[tuple[int, int]], counts: list[int], chunk: float
) -> list[tuple[float, tuple[float, float, float]]]:
    """What the slowest exchange of a ring takes a message, and how probable that is: each may go through a relay.

    A kind's sites stand side by side, so that a pair of one kind stands for one exchange less than there are sites.
    """
    rows = []
    for number, (i, j) in enumerate(pairs):
        times = counts[i] - 1 if i == j else 1
        relayed = float(job.lines.relayed[i, j])
        for lines, chance in ((job.lines, 1.0 - relayed), (job.lines.by_relay, relayed)):
            if lines is None or chance <= 0:
                continue
            sent, unlost = chunk / float(lines.goodput_bps[i, j]), chunk / float(lines.line_bps[i, j])
            rows.append((number, times, chance, (sent, unlost, float(lines.rtt_s[i, j]) / 2.0)))
    rows.sort(key=lambda row: row[3][0] + row[3][2])
    within, times_of = dict.fromkeys(range(len(pairs)), 0.0), {row[0]: row[1] for row in rows}
    found, before = [], 0.0
    for number, _, chance, parts in rows:
        within[number] = min(within[number] + chance, 1.0)
        upto = math.prod(share ** max(times_of[one], 1) for one, share in within.items())
        found.append((upto - before, parts))
        before = upto
    return found


def _in_step(job: LocalJob, *, present: bool) -> SiteSyncTimes:
    """Everybody, or everybody who is there, waits for the slowest at every meeting."""
    method = job.method
    counts = np.array([site.section.count for site in job.sites], float)
    steps = np.array([site.step_s for site in job.sites])
    there = np.array([_there(job, site) if present else 1.0 for site in range(len(job.sites))])
    members = max(float((counts * there).sum()), 2.0 if not present else 1.0 + _STOPS)
    bits = size_bits(job) / method.fragments
    sent, unlost, far, pairs = ring_s(job, members, bits)
    slowest = float(steps.max())
    late = exposed_s(method, (sent + far) * method.fragments, slowest)
    cycle = slowest + late
    round_s = cycle * method.inner_steps
    stays = np.array([_stays(job, site, round_s) if present else 1.0 for site in range(len(job.sites))])
    tokens = counts * there * stays * job.step_tokens / cycle
    mean = float((counts * there * steps).sum() / (counts * there).sum())
    share = late / (sent + far) if sent + far > 0 else 0.0
    return SiteSyncTimes(
        step_s=cycle,
        compute_s=mean,
        causes={
            "computation": mean,
            "waiting for the slowest site": slowest - mean,
            "exchange: rate of the lines": unlost * share,
            "exchange: loss over distance": (sent - unlost) * share,
            "exchange: propagation": far * share,
        },
        exchange_s=(sent + far) * method.fragments,
        sent_bytes=2.0 * (members - 1.0) / members * size_bits(job) / 8.0,
        exposed_s=late,
        tokens_per_s=tuple(tokens.tolist()),
        waits=tuple((1.0 - steps / cycle).tolist()),
        pairs=tuple(pairs),
        lost=1.0 - float((counts * there * stays).sum() / (counts * there).sum()),
    )


def _apart(job: LocalJob, exchange: list[tuple[float, float, float]], pairs: list[tuple[int, int]]) -> SiteSyncTimes:
    """Nobody waits: each site's own cycle of H steps and an exchange (seconds of bits, unlost, of distance)."""
    method = job.method
    counts = np.array([site.section.count for site in job.sites], float)
    steps = np.array([site.step_s for site in job.sites])
    total = np.array([sent + far for sent, _, far in exchange])
    cycles = steps + total / method.inner_steps
    weight = counts / counts.sum()
    mean, cycle = float((weight * steps).sum()), float((weight * cycles).sum())
    parts = [float((weight * np.array(column)).sum()) / method.inner_steps for column in zip(*exchange, strict=True)]
    sent, unlost, far = parts
    return SiteSyncTimes(
        step_s=cycle,
        compute_s=mean,
        causes={
            "computation": mean,
            "exchange: rate of the lines": unlost,
            "exchange: loss over distance": sent - unlost,
            "exchange: propagation": far,
        },
        exchange_s=float((weight * total).sum()),
        sent_bytes=size_bits(job) / 8.0,
        exposed_s=cycle - mean,
        tokens_per_s=tuple((counts * job.step_tokens / cycles).tolist()),
        waits=tuple((1.0 - steps / cycles).tolist()),
        pairs=tuple(pairs),
        lost=0.0,
    )


def _to_server(job: LocalJob, site: int) -> tuple[float, float, float]:
    """Time to the server and back; it is at the first site, whose line all share if they arrive together."""
    bits, lines = size_bits(job), job.lines
    there, unlost, far = _mixed(
        job,
        site,
        lambda one: (
            bits / one.goodput_bps[site] + bits / one.goodput_bps[:, site],
            bits / one.line_bps[site] + bits / one.line_bps[:, site],
            one.rtt_s[site],
        ),
    )
    cycle = job.sites[site].step_s * job.method.inner_steps + there[0]
    load = sum(one.section.count for one in job.sites) * bits / cycle / float(lines.line_bps[:, 0].max())
    slower = max(load, 1.0)
    return float(there[0] * slower), float(unlost[0] * slower), float(far[0])


def _to_peers(job: LocalJob, site: int) -> tuple[float, float, float]:
    """Both ways at once with one other, drawn at random among all others."""
    bits = size_bits(job)
    counts = np.array([one.section.count for one in job.sites], float)
    counts[site] -= 1.0
    chance = counts / counts.sum()
    sent, unlost, far = _mixed(
        job,
        site,
        lambda one: (
            bits / np.minimum(one.goodput_bps[site], one.goodput_bps[:, site]),
            bits / np.minimum(one.line_bps[site], one.line_bps[:, site]),
            one.rtt_s[site],
        ),
    )
    return float((chance * sent).sum()), float((chance * unlost).sum()), float((chance * far).sum())


def _mixed(job: LocalJob, site: int, took: Callable[[Lines], tuple[Floats, ...]]) -> list[Floats]:
    """float64[kinds] each, mean over pairs that meet right and pairs that meet through a relay."""
    lines, share = job.lines, job.lines.relayed[site]
    relays = lines if lines.by_relay is None else lines.by_relay
    return [(1.0 - share) * direct + share * relayed for direct, relayed in zip(took(lines), took(relays), strict=True)]


def relay_bps(job: LocalJob, times: SiteSyncTimes) -> float:
    """What all relays together carry one way, mean over time: each exchange of relayed pairs passes them once."""
    counts = [site.section.count for site in job.sites]
    kind = job.method.partners
    if kind == "pairs":
        total = float(sum(counts))
        share = sum(
            counts[i] / total * (counts[j] - (i == j)) / max(total - 1.0, 1.0) * float(job.lines.relayed[i, j])
            for i in range(len(counts))
            for j in range(len(counts))
        )
        bits = 2.0 * size_bits(job) * total * share
    elif kind == "server":
        bits = 2.0 * size_bits(job) * sum(n * float(job.lines.relayed[i, 0]) for i, n in enumerate(counts))
    else:
        exchanges = [(counts[i] - 1 if i == j else 1, float(job.lines.relayed[i, j])) for i, j in times.pairs]
        bits = times.sent_bytes * 8.0 * sum(count * share for count, share in exchanges)
    return bits / (times.step_s * job.method.inner_steps)


def _server_pairs(job: LocalJob) -> list[tuple[int, int]]:
    return [(site, 0) for site in range(len(job.sites)) if site or job.sites[0].section.count > 1]


def _all_pairs(job: LocalJob) -> list[tuple[int, int]]:
    kinds = range(len(job.sites))
    return [(i, j) for i in kinds for j in kinds if i != j or job.sites[i].section.count > 1]


def _there(job: LocalJob, site: int) -> float:
    """Share of the time that a site is there."""
    section = job.sites[site].section
    return 1.0 if section.present is None else section.present / (section.present + section.away)


def _stays(job: LocalJob, site: int, seconds: float) -> float:
    """Chance that a site that is there stays so long: exponential, without memory."""
    present = job.sites[site].section.present
    return 1.0 if present is None else math.exp(-seconds / present)


def break_even_bps(job: LocalJob, times: SiteSyncTimes) -> float | None:
    """Rate between sites, headers in, at which gradients of every step, sent under the backward pass, are as fast.

    Lines without loss; None where distance alone makes every rate too low, or where this is that method.
    """
    if job.method.kind == "synchronous" or job.method.partners != "all":
        return None
    members = float(job.members)
    slowest = max(site.step_s for site in job.sites)
    messages = 2.0 * (members - 1.0)
    worst = max(float(job.lines.rtt_s[pair]) for pair in times.pairs)
    room = times.exposed_s + BACKWARD * slowest - messages * worst / 2.0
    if room <= 0:
        return None
    carried = transports.get(job.section.between.transport).payload_share
    return messages / members * job.parameters * 16.0 / room / carried
