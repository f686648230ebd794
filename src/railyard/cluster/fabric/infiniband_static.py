"""`infiniband-static`: InfiniBand whose switches route by destination, as a subnet manager lays routes out."""

from __future__ import annotations

from dataclasses import replace

from railyard.cluster.fabric.constants import measured, vendor
from railyard.cluster.fabric.fabric import fabrics
from railyard.cluster.fabric.infiniband import INFINIBAND

INFINIBAND_STATIC = fabrics.add(
    "infiniband-static",
    replace(
        INFINIBAND,
        name="infiniband-static",
        summary="InfiniBand NDR: credits on links, routes by destination, reliable connections at line rate",
        load_balancing="ecmp",
        reroute_ps=2_700_000_000_000,
        sources={
            **INFINIBAND.sources,
            "reroute_ps": measured(
                "2.7 s, 0.7 s for 512 hosts and 12 s for 8,192",
                "OpenSM on ibsim: discovery, routes and tables of 2,048 hosts; its sweep begins with the "
                "trap of the port that went down",
                2026,
            ),
            "load_balancing": vendor("ecmp", "linear forwarding tables of OpenSM: one path a destination", 2026),
        },
        packets=INFINIBAND.packets.with_constants(load_balancing="ecmp", rdma_out_of_order=False),
    ),
)
