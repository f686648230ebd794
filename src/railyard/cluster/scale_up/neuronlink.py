"""`neuronlink-3`, `neuronlink-4`: links of AWS Trainium: a torus of Trainium 2, switches from Trainium 3 on."""

from __future__ import annotations

from dataclasses import replace

from railyard.cluster.fabric.fabric import estimated, vendor
from railyard.cluster.scale_up.fabric import ScaleUpFabric, scale_ups

_NS = 1000
_UNKNOWN = ("frames, flow control, replay and latency: not published",)

NEURONLINK_3 = scale_ups.enter(
    ScaleUpFabric(
        name="neuronlink-3",
        summary="NeuronLink-v3 of Trainium 2: a torus of 4 x 4 chips in a server, of 4 x 4 x 4 in four",
        kind="torus",
        link_bps=1280e9,
        links=4,
        largest_domain=64,
        framed_share=0.87,
        library_share=512 / 556.8,
        bridge_ps=1290 * _NS,
        link_ps=200 * _NS,
        cable_m=2.0,
        left_out=(*_UNKNOWN, "the slower links between the four servers of an UltraServer"),
        sources={
            "link_bps": estimated(
                "160 GB/s one way", "1.28 TB/s a chip (AWS Neuron), taken as both ways, over 4 links", 2024
            ),
            "links": vendor("4", "AWS Neuron: 4 x 4 torus", 2024),
            "largest_domain": vendor("64", "AWS Neuron: UltraServer", 2024),
            "framed_share": estimated("87 %", "as NVLink", 2026),
            "library_share": estimated("92 %", "as NCCL on NVLink 5: 512 of 557 GB/s", 2026),
            "bridge_ps": estimated("1.29 us", "what the other parts leave of 1.5 us, the catalogue's estimate", 2026),
            "link_ps": estimated("200 ns", "not published", 2026),
            "cable_m": estimated("2 m", "not published", 2026),
        },
    )
)

NEURONLINK_4 = scale_ups.enter(
    replace(
        NEURONLINK_3,
        name="neuronlink-4",
        summary="NeuronLink-v4 of Trainium 3: switches join 64 chips, or 144 in two tiers",
        kind="switched",
        links=8,
        largest_domain=144,
        bridge_ps=800 * _NS,
        switch_ps=250 * _NS,
        stages=2,
        first_tier=64,
        upper_loss=0.03,
        upper_cable_m=3.0,
        left_out=(*_UNKNOWN, "what the second tier of 36 x 4 loses: as CloudMatrix's"),
        sources={
            **NEURONLINK_3.sources,
            "link_bps": estimated(
                "160 GB/s one way", "2.56 TB/s a chip (AWS Neuron), taken as both ways, over 8 links", 2025
            ),
            "links": estimated("8", "twice Trainium 2's rate by twice the links: not published", 2026),
            "largest_domain": vendor("144", "AWS Neuron: Trn3 Gen2 UltraServer, two levels", 2025),
            "bridge_ps": estimated("800 ns", "not published", 2026),
            "switch_ps": estimated("250 ns", "as Tomahawk Ultra", 2026),
            "stages": vendor("2", "AWS Neuron: 36 x 4, two levels", 2025),
            "first_tier": vendor("64", "AWS Neuron: Trn3 Gen1 UltraServer", 2025),
            "upper_loss": estimated("3 %", "as measured on CloudMatrix 384", 2026),
            "upper_cable_m": estimated("3 m", "two racks", 2026),
        },
    )
)
