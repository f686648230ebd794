"""Figures of scheduled fabrics and of links with credit, and of what nobody has published about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from figure import MB, Found, figure

from railyard.cluster.fabric import fabrics
from railyard.engine.packet import Settings, Traffic, leaf_spine, run
from railyard_validation.fabric.packets import RATE_BPS, ROCE_SETTINGS, SCHEDULED, permutation
from railyard_validation.plot import Axis, Curve, Plot

STATIC = fabrics.get("infiniband-static").packets.constants
ADAPTIVE = fabrics.get("infiniband").packets.constants

HOSTS = 64


@figure(
    "scheduled-patterns",
    "A scheduled fabric does not care which host sends to which",
    "64 hosts in four leaves under 16 spines send 4 MB each in five patterns without incast. Cells over all links and "
    "credit by the receiving port give every pattern the same time; hashed paths give each its own luck. A scheduled "
    "flow pays for cell headers and for the wait for its first credit.",
)
def scheduled_patterns() -> Found:
    """Slowest flow of several patterns on several fabrics."""
    network = leaf_spine(HOSTS, leaf_hosts=16, spines=16, rate_bps=RATE_BPS)
    host = np.arange(HOSTS)
    order = np.random.default_rng(0).permutation(HOSTS)
    patterns = {
        "next leaf": (host, (host + 16) % HOSTS),
        "permutation": (order, np.roll(order, 1)),
        "bit reversal": (host, np.array([int(f"{one:06b}"[::-1], 2) for one in host])),
        "tornado": (host, (host + HOSTS // 2 - 1) % HOSTS),
        "transpose": (host, host % 8 * 8 + host // 8),
    }
    cases = {"scheduled": SCHEDULED, "UEC": Settings(), "RoCE": ROCE_SETTINGS}
    slowest: dict[str, list[float]] = {name: [] for name in cases}
    for source, target in patterns.values():
        away = source != target
        traffic = Traffic.of(HOSTS, source[away], target[away], 4 * MB)
        for name, settings in cases.items():
            slowest[name].append(float(run(network, traffic, settings).duration_ps.max()) / 1e6)
    place = tuple(map(float, range(len(patterns))))
    curves = [Curve(name, list(zip(place, values, strict=True)), dots=True) for name, values in slowest.items()]
    across = Axis("pattern", -0.3, len(patterns) - 0.7, marks=place, words=tuple(patterns))
    plot = Plot("The slowest flow, by pattern", across, Axis("completion time, us", 0), curves)
    rows = [[name, *(f"{slowest[case][at]:.1f}" for case in cases)] for at, name in enumerate(patterns)]
    return Found(plot, ["pattern", *(f"{case}, us" for case in cases)], rows)


@figure(
    "credit-saturation",
    "One hot host and a tree of waiting credit",
    "64 hosts in four leaves under 16 spines: 32 bystanders send 4 MB each to one another, and up to 31 others send to "
    "one host. On links with credit, packets for the hot host fill the buffers on their way. Routed by destination "
    "they have one way and hold up only those who share it; adaptive routing lets them fill every spine, and all wait. "
    "(InfiniBand's congestion control, which marks and slows the senders down, is off.)",
)
def credit_saturation() -> Found:
    """What bystanders keep of their rate beside an incast."""
    network = leaf_spine(HOSTS, leaf_hosts=16, spines=16, rate_bps=RATE_BPS)
    bystanders = np.arange(1, HOSTS, 2)
    hot = np.random.default_rng(0).permutation(np.arange(2, HOSTS, 2))
    cases = {
        "by destination": Settings(**STATIC),
        "adaptive": Settings(**ADAPTIVE),
        "UEC": Settings(),
        "scheduled": SCHEDULED,
    }
    senders = (0, 2, 4, 8, 16, 31)
    curves, columns = [], []
    for name, settings in cases.items():
        kept = []
        for number in senders:
            source = np.concatenate([bystanders, hot[:number]])
            target = np.concatenate([np.roll(bystanders, 8), np.zeros(number, np.int64)])
            found = run(network, Traffic.of(HOSTS, source, target, 4 * MB), settings)
            kept.append(100 * float((32e12 * MB / RATE_BPS / found.duration_ps[: len(bystanders)]).mean()))
        columns.append(kept)
        curves.append(Curve(name, list(zip(map(float, senders), kept, strict=True)), dots=True))
    across = Axis("hosts that send to the hot one", 0, 31, marks=tuple(map(float, senders)))
    plot = Plot("What bystanders keep beside an incast", across,
                Axis("mean rate of bystanders, % of their link", 0, 100, suffix=" %"), curves)  # fmt: skip
    rows = [[str(number), *(f"{column[at]:.1f}" for column in columns)] for at, number in enumerate(senders)]
    return Found(plot, ["senders", *(f"{name}, %" for name in cases)], rows)


VARIED: dict[str, tuple[Settings, dict[str, tuple[Any, Any]]]] = {
    "Spectrum-X": (
        Settings(**fabrics.get("spectrum-x").packets.constants),
        {
            "spectrum_threshold_ps": (5_000_000, 25_000_000),
            "spectrum_responsiveness": (0.05, 0.2),
            "spectrum_most_decrease": (0.9, 0.99),
            "spectrum_additive_share": (32 / 2**20, 288 / 2**20),
            "spectrum_first_cut": (0.25, 1.0),
            "spectrum_notified_kept": (0.8, 0.97),
            "spectrum_most_delay_ps": (100_000_000, 1_000_000_000),
        },
    ),
    "scheduled": (
        SCHEDULED,
        {
            "scheduled_cell_bytes": (128, 512),
            "scheduled_credit_bytes": (2048, 16_384),
            "scheduled_credit_rate": (1.0, 1.1),
            "scheduled_request_ps": (50_000, 500_000),
        },
    ),
    "InfiniBand": (
        Settings(**ADAPTIVE),
        {
            "link_credit_buffer_bytes": (65_536, 262_144),
            "link_credit_update_bytes": (4096, 65_536),
            "link_credit_fifo": (False, True),
            "link_credit_cut_through": (False, True),
        },
    ),
}
"""What nobody has published, with half and twice what we take, or as far as it makes sense."""


@figure(
    "unpublished-constants",
    "Constants that nobody has published",
    "Each constant alone at a low and a high value, 64 hosts in four leaves: a permutation of 4 MB (its p99) and two "
    "that send 12 MB each to one (its last finish), against the defaults. Bars are numbered as the rows of the table. "
    "A constant that changes nothing here is one that these two loads do not reach.",
)
def unpublished_constants() -> Found:
    """Changes of two figures by each constant."""
    ranges: dict[str, list[tuple[float, float, float]]] = {"permutation, p99": [], "incast, last finish": []}
    rows, number = [], 0
    for fabric, (settings, constants) in VARIED.items():
        usual = _two_figures(settings)
        for key, ends in constants.items():
            number += 1
            changes = np.array(
                [
                    [
                        100 * (found / base - 1)
                        for found, base in zip(_two_figures(replace(settings, **{key: end})), usual, strict=True)
                    ]
                    for end in ends
                ]
            )
            for at, bars in enumerate(ranges.values()):
                bars.append(
                    (number + (0.15 if at else -0.15), float(changes[:, at].min()), float(changes[:, at].max()))
                )
            told = [f"{change:+.1f}" for change in changes.T.ravel()]
            rows.append(
                [
                    str(number),
                    fabric,
                    f"`{key}`",
                    *(str(end) if isinstance(end, bool) else f"{end:g}" for end in ends),
                    *told,
                ]
            )
    curves = [Curve(name, [], ranges=bars) for name, bars in ranges.items()]
    marks = tuple(map(float, range(1, number + 1)))
    plot = Plot(
        "Change by each constant", Axis("constant", 0.5, number + 0.5, marks=marks), Axis("change", suffix=" %"), curves
    )
    head = ["", "fabric", "constant", "low", "high", "p99 at low, %", "at high, %", "incast at low, %", "at high, %"]
    return Found(plot, head, rows)


def _two_figures(settings: Settings) -> tuple[float, float]:
    """p99 of a permutation and the last finish of an incast, ps."""
    network = leaf_spine(HOSTS, leaf_hosts=16, spines=16, rate_bps=RATE_BPS)
    spread = np.sort(run(network, permutation(HOSTS, 4 * MB, 0), settings).duration_ps)
    into = run(network, Traffic.of(HOSTS, [16, 40], 0, 12 * MB), settings)
    return float(spread[int(np.ceil(0.99 * HOSTS)) - 1]), float(into.end_ps.max())
