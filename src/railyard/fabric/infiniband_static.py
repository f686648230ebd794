"""`infiniband-static`: InfiniBand whose switches route by destination, as a subnet manager lays routes out."""

from __future__ import annotations

from dataclasses import replace

from railyard.fabric.constants import vendor
from railyard.fabric.fabric import fabrics
from railyard.fabric.infiniband import INFINIBAND

INFINIBAND_STATIC = fabrics.add(
    "infiniband-static",
    replace(
        INFINIBAND,
        name="infiniband-static",
        summary="InfiniBand NDR: credits on links, routes by destination, reliable connections at line rate",
        load_balancing="ecmp",
        sources={
            **INFINIBAND.sources,
            "load_balancing": vendor("ecmp", "linear forwarding tables of OpenSM: one path a destination", 2026),
        },
        packets=INFINIBAND.packets.with_constants(load_balancing="ecmp", rdma_out_of_order=False),
    ),
)
