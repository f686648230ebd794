"""`nvlink-4`, `nvlink-5`, `nvlink-6`: switched, loads and stores, sums and multicasts in the switch (NVLink SHARP)."""

from __future__ import annotations

from dataclasses import replace

from railyard.cluster.fabric.fabric import estimated, measured, vendor
from railyard.cluster.scale_up.fabric import ScaleUpFabric, scale_ups

_NS = 1000

NVLINK_5 = scale_ups.enter(
    ScaleUpFabric(
        name="nvlink-5",
        summary="NVLink 5 of Blackwell: 18 links of 50 GB/s one way, one tier of switches that add",
        kind="switched",
        link_bps=400e9,
        links=18,
        largest_domain=576,
        framed_share=0.87,
        library_share=721.8 / 783.0,
        bridge_ps=round(432.8 * _NS),
        link_ps=100 * _NS,
        switch_ps=250 * _NS,
        cable_m=1.0,
        reduces=True,
        flow_control="credits",
        left_out=(
            "flits, credits and link replay: not published",
            "the port latency of NVSwitch: not published, only the sum from accelerator to accelerator is measured",
        ),
        sources={
            "link_bps": vendor("50 GB/s one way", "NVIDIA, NVLink 5: 18 links of 100 GB/s both ways", 2024),
            "links": vendor("18", "NVIDIA, NVLink 5: 1.8 TB/s a GPU both ways", 2024),
            "largest_domain": vendor("576", "NVIDIA, NVLink switch system: up to 576 GPUs (72 delivered)", 2024),
            "framed_share": measured("87 %", "copies reach 392 of 450 GB/s (H100) and 777 of 900 (GB200)", 2025),
            "library_share": measured("92 %", "NCCL 2.30 plans 40.1 GB/s a link, 721.8 of 783 GB/s", 2026),
            "bridge_ps": estimated("432.8 ns", "what the other parts leave of 792 ns one way", 2026),
            "link_ps": estimated("100 ns", "as SUE's link and PHY (Broadcom SUE RM104)", 2025),
            "switch_ps": estimated("250 ns", "not published; as Tomahawk Ultra's", 2025),
            "one_way_ps": measured("792 ns", "remote store one way on GB200 (arXiv 2607.16100, section VI)", 2026),
            "cable_m": estimated("1 m", "copper backplane of one rack", 2024),
            "reduces": vendor("true", "NVIDIA, NVLink SHARP", 2024),
            "flow_control": estimated("credits", "NVLink 1 and 2 have them; not published since", 2017),
        },
    )
)

NVLINK_4 = scale_ups.enter(
    replace(
        NVLINK_5,
        name="nvlink-4",
        summary="NVLink 4 of Hopper: 18 links of 25 GB/s one way, one tier of switches that add",
        link_bps=200e9,
        largest_domain=256,
        library_share=370.8 / 391.5,
        bridge_ps=round(470.4 * _NS),
        cable_m=0.5,
        sources={
            **NVLINK_5.sources,
            "link_bps": vendor("25 GB/s one way", "NVIDIA, NVLink 4: 18 links of 50 GB/s both ways", 2022),
            "largest_domain": vendor("256", "NVIDIA DGX H100 SuperPOD with NVLink switches", 2022),
            "library_share": measured("95 %", "NCCL 2.30 plans 20.6 GB/s a link, 370.8 of 391.5 GB/s", 2026),
            "bridge_ps": estimated("470.4 ns", "what the other parts leave of 825 ns one way", 2026),
            "one_way_ps": measured("825 ns", "822 to 829 ns on H100 (MSCCL++, arXiv 2504.09014, table 1)", 2025),
            "cable_m": estimated("0.5 m", "traces of one board", 2022),
        },
    )
)

NVLINK_6 = scale_ups.enter(
    replace(
        NVLINK_5,
        name="nvlink-6",
        summary="NVLink 6 of Rubin: 36 links of 50 GB/s one way, one tier of switches that add",
        links=36,
        left_out=(*NVLINK_5.left_out, "latencies and shares of NVLink 6: those of NVLink 5 are taken"),
        sources={
            **NVLINK_5.sources,
            "links": vendor("36", "NVIDIA, Vera Rubin NVL72: 3.6 TB/s a GPU both ways", 2026),
            "framed_share": estimated("87 %", "as NVLink 5", 2026),
            "library_share": estimated("92 %", "as NVLink 5", 2026),
            "one_way_ps": estimated("792 ns", "as NVLink 5", 2026),
        },
    )
)
