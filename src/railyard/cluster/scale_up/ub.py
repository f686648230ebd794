"""`ub`: Huawei's Unified Bus of CloudMatrix 384: seven planes, a tier of switches on boards and one of optics above."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import estimated, measured, vendor
from railyard.cluster.scale_up.fabric import ScaleUpFabric, scale_ups

_NS = 1000
_PAPER = "CloudMatrix384 (arXiv 2506.12708)"

UB = scale_ups.enter(
    ScaleUpFabric(
        name="ub",
        summary="Unified Bus of CloudMatrix 384: 14 links of 28 GB/s over seven planes and two tiers of switches",
        kind="switched",
        link_bps=224e9,
        links=14,
        largest_domain=384,
        framed_share=0.87,
        library_share=0.92,
        bridge_ps=100 * _NS,
        link_ps=100 * _NS,
        switch_ps=150 * _NS,
        cable_s_per_m=4.96e-9,
        cable_m=0.5,
        stages=2,
        first_tier=8,
        upper_loss=0.03,
        upper_cable_m=15.0,
        left_out=(
            "frames, credits and replay: not published",
            "the lower latency of neighbours on one board: a domain beyond 8 has that of two boards everywhere",
        ),
        sources={
            "link_bps": vendor("28 GB/s one way", f"{_PAPER}: 392 GB/s of two dies on seven planes", 2025),
            "links": vendor("14", f"{_PAPER}: two dies, seven planes", 2025),
            "largest_domain": vendor("384", _PAPER, 2025),
            "framed_share": estimated("87 %", "as NVLink: not published", 2026),
            "library_share": estimated("92 %", "as NCCL on NVLink 5", 2026),
            "bridge_ps": estimated("100 ns", "as SUE (Broadcom SUE RM104)", 2025),
            "link_ps": estimated("100 ns", "as SUE", 2025),
            "switch_ps": estimated(
                "150 ns", "UALink Consortium: below 150 ns for chips of 25.6 Tb/s; these have 10.8", 2025
            ),
            "cable_s_per_m": vendor("4.96 ns/m", "single-mode fibre (Broadcom SUE RM104)", 2025),
            "cable_m": estimated("0.5 m", "traces of a board", 2026),
            "stages": vendor("2", f"{_PAPER}: 336 chips on boards, 112 in four racks", 2025),
            "first_tier": vendor("8", f"{_PAPER}: NPUs of a node", 2025),
            "upper_loss": measured("3 %", f"{_PAPER}: less than 3 % of bandwidth across nodes", 2025),
            "upper_cable_m": estimated("15 m", "16 racks in two rows", 2026),
        },
    )
)
