"""Figures of paths and of loss: collisions, sprays, incast, pauses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from figure import MB, Found, figure

from railyard.engine.packet import Settings, Traffic, fat_tree, leaf_spine, run
from railyard.measure.network import distribution
from railyard_validation.fabric.packets import (
    PAUSES_ALONE,
    RATE_BPS,
    ROCE_SETTINGS,
    leaf_to_leaf,
    permutation,
    slowest_share,
)
from railyard_validation.plot import Axis, Curve, Plot

if TYPE_CHECKING:
    from railyard.graph import Record


def law(qps: int, links: int = 32, draws: int = 4000) -> float:
    """Balls into bins: one over the largest load, mean over draws, in percent; flows in `qps` equal parts."""
    rng = np.random.default_rng(7)
    loads = np.apply_along_axis(np.bincount, 1, rng.integers(0, links, (draws, links * qps)), minlength=links)
    return 100 * float((qps / loads.max(axis=1)).mean())


@figure(
    "ecmp-collisions",
    "Hashing many flows onto many links",
    "32 hosts of a leaf send 40 MB each to another leaf over 32 uplinks, each split over queue pairs that are hashed "
    "apart. The slowest gets what the law of balls and bins says. Switches that choose a link for each packet have no "
    "such loss.",
)
def ecmp_collisions() -> Found:
    """Share of the slowest flow by queue pairs."""
    hashed = Settings(load_balancing="ecmp")
    found = {}
    for qps, seeds in ((1, 24), (2, 16), (4, 12), (8, 10), (16, 8), (32, 6), (64, 5)):
        shares = [_share(qps, replace(hashed, seed=seed)) for seed in range(seeds)]
        found[qps] = (float(np.mean(shares)), min(shares), max(shares))
    chosen = _share(1, Settings(load_balancing="adaptive"))
    curves = [
        Curve("packets", [(qps, mean) for qps, (mean, _, _) in found.items()], dots=True,
              ranges=[(qps, low, high) for qps, (_, low, high) in found.items()]),
        Curve("balls into bins", [(qps, law(qps)) for qps in found], dashed=True),
        Curve("chosen by switches", [(1, chosen), (64, chosen)]),
    ]  # fmt: skip
    across = Axis("queue pairs of a flow", 1, 64, log=True, marks=(1, 2, 4, 8, 16, 32, 64))
    plot = Plot("The slowest of 32 flows on 32 uplinks", across,
                Axis("rate of the slowest flow, % of its link", 0, 100, suffix=" %"), curves)  # fmt: skip
    rows = [[str(qps), f"{mean:.1f}", f"{low:.1f} to {high:.1f}", f"{law(qps):.1f}"]
            for qps, (mean, low, high) in found.items()]  # fmt: skip
    return Found(plot, ["queue pairs", "slowest flow, % (mean)", "over seeds", "law, %"], rows)


def _share(qps: int, settings: Settings) -> float:
    return 100 * slowest_share(leaf_to_leaf(qps, settings)[2], settings)


@figure(
    "spray-tails",
    "Who chooses the path, and the tail",
    "A permutation of 1,024 hosts at 400 Gb/s on a three-tier tree, 2 MB each. With one path a flow, one in ten takes "
    "more than three times the ideal; spraying brings the tail within 1.5 of it, switches that choose within 1.3.",
)
def spray_tails() -> Found:
    """Distribution of completion times by load balancing."""
    tree = fat_tree(1024, rate_bps=RATE_BPS)
    names = {"ecmp": "one path", "spray": "oblivious", "mixed": "UEC mixed", "adaptive": "switches choose"}
    curves, rows = [], []
    for balancing, name in names.items():
        settings = Settings(load_balancing=balancing)  # type: ignore[arg-type]
        fct = np.sort(run(tree, permutation(1024, 2 * MB, 0), settings).duration_ps / 1e6)
        points = distribution(fct)
        curves.append(Curve(name, [(points[0][0], 0.0), *((us, 100 * share) for us, share in points)], steps=True))
        rows.append([name, *(f"{value:.1f}" for value in (fct.mean(), fct[511], fct[1013], fct[-1]))])
    plot = Plot("Completion times of a permutation of 1,024 hosts", Axis("completion time, us", 40, 300, log=True),
                Axis("share of flows that took no longer", 0, 100, suffix=" %"), curves)  # fmt: skip
    return Found(plot, ["path", "mean, us", "p50, us", "p99, us", "slowest, us"], rows)


CONTROLS = {
    "UEC NSCC": Settings(),
    "UEC RCCC": Settings(congestion_control="rccc"),
    "RoCE": ROCE_SETTINGS,
    "RoCE without PFC": replace(ROCE_SETTINGS, switching="lossy"),
    "go-back-N alone": replace(PAUSES_ALONE, switching="lossy"),
}


@figure(
    "incast-collapse",
    "Many senders, one receiver",
    "1 to 64 hosts send 2 MB each to one host of a 128-host tree; the receiver's link could always be full. RDMA that "
    "goes back to the lost packet collapses where switches drop and timers of 4 ms run out; with pauses, with trimming "
    "and windows, and with credit nothing does.",
)
def incast_collapse() -> Found:
    """Goodput of an incast by number of senders."""
    tree = fat_tree(128, rate_bps=RATE_BPS)
    senders = (1, 2, 4, 8, 16, 32, 64)
    curves, columns = [], []
    for name, settings in CONTROLS.items():
        values = [_goodput(run(tree, Traffic.of(128, np.arange(1, n + 1), 0, 2 * MB), settings), n) for n in senders]
        curves.append(Curve(name, list(zip(map(float, senders), values, strict=True)), dots=True))
        columns.append(values)
    across = Axis("senders", 1, 64, log=True, marks=tuple(map(float, senders)))
    plot = Plot("Goodput of an incast", across,
                Axis("goodput, % of the receiver's link", 0, 100, suffix=" %"), curves)  # fmt: skip
    rows = [[str(n), *(f"{column[at]:.1f}" for column in columns)] for at, n in enumerate(senders)]
    return Found(plot, ["senders", *(f"{name}, %" for name in CONTROLS)], rows)


def _goodput(found: Record, senders: int) -> float:
    return 100 * senders * 2 * MB * 8e12 / RATE_BPS / float(found.end_ps.max())


@figure(
    "pfc-victims",
    "Pauses spread to those who have no part in it",
    "64 hosts in four leaves, 16 spines. 16 hosts of two leaves send 4 MB each to one host; 16 others of the same "
    "leaves send 2 MB each to hosts of their own. With pauses alone (RoCE at line rate) those that share an uplink "
    "with the incast wait for it; DCQCN shortens that. Where switches trim or receivers grant credit nobody notices.",
)
def pfc_victims() -> Found:
    """Slowdown of flows that only share leaves with an incast."""
    network = leaf_spine(64, leaf_hosts=16, spines=16, rate_bps=RATE_BPS)
    bystanders = np.arange(8, 24)
    incast = np.concatenate([np.arange(0, 8), np.arange(24, 32)])
    both = Traffic.of(
        64, np.concatenate([bystanders, incast]), np.concatenate([bystanders + 24, np.full(16, 63)]),
        np.concatenate([np.full(16, 2 * MB), np.full(16, 4 * MB)]),
    )  # fmt: skip
    alone = Traffic.of(64, bystanders, bystanders + 24, 2 * MB)
    cases = {
        "PFC alone": PAUSES_ALONE,
        "PFC and DCQCN": ROCE_SETTINGS,
        "UEC NSCC": Settings(),
        "UEC RCCC": Settings(congestion_control="rccc"),
    }
    curves, rows = [], []
    for name, settings in cases.items():
        disturbed, calm = run(network, both, settings), run(network, alone, settings)
        slowdown = np.sort(disturbed.duration_ps[:16] / calm.duration_ps)
        curves.append(
            Curve(name, [(at / 16 * 100, value) for at, value in enumerate(slowdown.tolist(), start=1)], dots=True)
        )
        stopped = disturbed.table("links").get("paused_ps", np.zeros(1))  # no column where nothing can pause
        rows.append([
            name, f"{np.median(slowdown):.2f}", f"{slowdown[-1]:.2f}",
            str(int((stopped > 0).sum())), f"{stopped.sum() / 1e6:,.0f}",
        ])  # fmt: skip
    across = Axis("bystanders, % of all", 0, 100, suffix=" %")
    up = Axis("completion time over that without the incast", 0.5, log=True)
    plot = Plot("What an incast does to flows that have no part in it", across, up, curves)
    return Found(plot, ["fabric", "median slowdown", "worst", "links paused", "for, us in total"], rows)
