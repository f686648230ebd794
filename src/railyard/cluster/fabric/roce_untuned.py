"""`roce-untuned`: RoCEv2 as NCCL, NICs and switches are delivered: one queue pair, DCQCN and marks by default."""

from __future__ import annotations

from dataclasses import replace

from railyard.cluster.fabric.constants import vendor
from railyard.cluster.fabric.fabric import fabrics
from railyard.cluster.fabric.roce import ROCE

_US = 10**6

ROCE_UNTUNED = fabrics.add(
    "roce-untuned",
    replace(
        ROCE,
        name="roce-untuned",
        summary="RoCEv2 as delivered: one queue pair a connection hashed onto a path, PFC, DCQCN and marks by default",
        qps=1,
        packets=ROCE.packets.with_constants(
            sources=(
                *ROCE.packets.sources,
                "mlxconfig of ConnectX and BlueField: rpg_time_reset 300, rpg_ai_rate 5, rpg_hai_rate 50, "
                "rpg_min_dec_fac 50",
                "SONiC: WRED from 1 to 2 MB, at most 5 %",
            ),
            marking_low_bytes=1_000_000,
            marking_high_bytes=2_000_000,
            marking_most=0.05,
            dcqcn_increase_interval_ps=300 * _US,
            dcqcn_additive_bps=5e6,
            dcqcn_hyper_bps=50e6,
            dcqcn_least_kept=0.5,
        ),
        sources={**ROCE.sources, "qps": vendor("1", "NCCL default NCCL_IB_QPS_PER_CONNECTION=1", 2026)},
    ),
)
