#!/usr/bin/env python3
"""What too little PFC headroom on long links costs where senders on one site crowd a port on another, in packets.

Usage: validation/tools/headroom_law.py FILE

Every case runs with the headroom that its switches leave and with all that is needed (deep buffers). FILE gets one JSON
line a case; cases that stand in it are not run again. Then all are printed: how many times as long it took, and what
`railyard.cluster.credits.headroom_share` says. One core takes two minutes.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.credits import headroom_share
from railyard.cluster.topology import LeafSpine, MultiSite
from railyard.engine.packet import Traffic, run
from railyard.engine.packet.fabrics import settings_of
from railyard.engine.packet.placing import place

RANKS, DEEP = 32, "7800R4"
SITE = RANKS // 2
FABRICS = ("roce", "spectrum-x")
KM, LINKS, SENDERS, MB = (100, 300, 1000), (2, 4), (2, 4, 8), (50, 200)


def took_ps(case: dict[str, Any], border: str | None) -> tuple[int, float]:
    """Until the last of its flows has ended; and needed over left headroom."""
    topology = MultiSite(sites=2, distance_m=1e3 * case["km"], links=case["links"], inner=LeafSpine())
    network = NetworkSpec(topology, FabricSpec(case["fabric"]), border_switch=border)
    cluster = build(ClusterSpec(RANKS, "hgx-h100", network), catalog.load())
    settings = settings_of(cluster, cluster.fabric)
    placed = place(cluster, scale_up=False, packet_bytes=settings.mtu_bytes, header_bytes=settings.header_bytes)
    port = cluster.back_end.port_of_rank[:, 0].astype(np.int64)
    senders = port[: case["senders"]]
    traffic = Traffic.of(placed.network.hosts, senders, np.full(len(senders), port[SITE]), case["mb"] * 1_000_000)
    plan = cluster.plans["back_end"]
    ratio = plan.headroom_needed_bytes / plan.headroom_left_bytes
    settings = replace(settings, base_rtt_ps=placed.base_rtt_ps)
    return int(run(placed.network, traffic, settings).end_ps.max()), ratio


def measured(case: dict[str, Any]) -> dict[str, Any]:
    """The case with its figures."""
    (short, ratio), (full, _) = took_ps(case, None), took_ps(case, DEEP)
    way_ps = 5.13e6 * case["km"]
    return {**case, "needed": ratio, "longer": (short - way_ps) / (full - way_ps), "full_ms": full / 1e9}


def main() -> None:
    path = Path(sys.argv[1])
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    keys = ("fabric", "km", "links", "senders", "mb")
    done = {tuple(row[key] for key in keys) for row in rows}
    for values in product(FABRICS, KM, LINKS, SENDERS, MB):
        if values not in done:
            rows.append(measured(dict(zip(keys, values, strict=True))))
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    for fabric in FABRICS:
        own = [row for row in rows if row["fabric"] == fabric]
        for row in own:
            law = 1 / headroom_share(row["needed"])
            print(*(row[key] for key in keys), f"{row['needed']:.1f} {row['longer']:.2f} {law:.2f}")
        off = [abs(row["longer"] * headroom_share(row["needed"]) - 1) for row in own]
        print(f"{fabric}: mean distance from the law {fmean(off):.1%}, largest {max(off):.0%}, {len(off)} cases")


if __name__ == "__main__":
    main()
