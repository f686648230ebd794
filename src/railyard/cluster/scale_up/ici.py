"""`ici`, `ici-4`: the inter-chip interconnect of Google's TPUs: a 3D torus of cubes of 64."""

from __future__ import annotations

from dataclasses import replace

from railyard.cluster.fabric.fabric import estimated, vendor
from railyard.cluster.scale_up.fabric import ScaleUpFabric, scale_ups

_NS = 1000

ICI = scale_ups.enter(
    ScaleUpFabric(
        name="ici",
        summary="ICI of TPU v5p and v7: six links of 100 GB/s one way in a 3D torus",
        kind="torus",
        link_bps=800e9,
        links=6,
        largest_domain=9216,
        framed_share=0.95,
        library_share=540 / 570,
        bridge_ps=round(786.2 * _NS),
        link_ps=200 * _NS,
        cable_m=3.0,
        left_out=(
            "frames, flow control and replay: not published",
            "optical switches between cubes and their longer fibres: every hop is as long as in a cube",
            "what an XLA collective overlaps: as a library on a torus",
        ),
        sources={
            "link_bps": vendor(
                "100 GB/s one way", "Google Cloud, v5p and TPU7x: 1,200 GB/s both ways, six links", 2025
            ),
            "links": vendor("6", "Google Cloud: 3D torus", 2025),
            "largest_domain": vendor("9,216", "Google Cloud: TPU7x pod", 2025),
            "framed_share": estimated("95 %", "not published", 2026),
            "library_share": estimated("95 %", "540 of 600 GB/s, the catalogue's estimate", 2026),
            "bridge_ps": estimated("786.2 ns", "the rest of 1 us (JAX scaling book: 0.5 to 1 us a hop)", 2025),
            "link_ps": estimated("200 ns", "not published", 2026),
            "cable_m": estimated("3 m", "copper in a cube", 2026),
        },
    )
)

ICI_4 = scale_ups.enter(
    replace(
        ICI,
        name="ici-4",
        summary="ICI of TPU v4: six links of 50 GB/s one way in a 3D torus",
        link_bps=400e9,
        largest_domain=4096,
        sources={
            **ICI.sources,
            "link_bps": vendor("50 GB/s one way", "Jouppi et al., TPU v4 (ISCA 2023)", 2023),
            "largest_domain": vendor("4,096", "Jouppi et al., TPU v4 (ISCA 2023)", 2023),
        },
    )
)
