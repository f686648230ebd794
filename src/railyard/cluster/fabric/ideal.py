"""`ideal`: a non-blocking crossbar, the upper bound against which everything is shown."""

from __future__ import annotations

from railyard.cluster.fabric.constants import estimated
from railyard.cluster.fabric.fabric import Fabric, fabrics

IDEAL = fabrics.add(
    "ideal",
    Fabric(
        name="ideal",
        summary="A non-blocking crossbar: only the NICs' own links count",
        load_balancing="ideal",
        header_bytes=26,
        hop_latency_ps=350_000,
        nic_latency_ps=2_350_000,
        switches=(("tomahawk-5", "tomahawk-5"), ("tomahawk-6", "tomahawk-6")),
        families=("ethernet", "infiniband", "scheduled-leaf", "scheduled-fabric"),
        left_out=(
            "everything between the NICs but one hop's latency for each switch of the topology that it is laid over",
        ),
        sources={
            "header_bytes": estimated("26 B", "the smallest overhead of the fabrics compared (infiniband)", 2025),
            "hop_latency_ps": estimated("0.35 us", "the lowest of the fabrics compared (infiniband)", 2025),
            "nic_latency_ps": estimated("2.35 us", "the lowest of the fabrics compared (infiniband)", 2025),
        },
    ),
)
