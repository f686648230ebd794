"""Fabrics by name: settings as data, each with the source of its constants."""

from __future__ import annotations

from dataclasses import dataclass

from railyard.registry import Registry
from railyard.scenario.packet.settings import Settings


@dataclass(frozen=True)
class Preset:
    """A fabric.

    Attributes:
        name: What `--fabric` takes.
        summary: In one sentence.
        settings: Its parts and constants.
        sources: Where the constants stand.
        left_out: What the fabric has and the model has not.
    """

    name: str
    summary: str
    settings: Settings
    sources: tuple[str, ...]
    left_out: tuple[str, ...]


PRESETS: Registry[Preset] = Registry("fabric of packets")


def fabric(name: str) -> Preset:
    """The preset of a name.

    Raises:
        InputError: There is none; with the nearest.
    """
    return PRESETS.get(name)


def _add(preset: Preset) -> Preset:
    return PRESETS.add(preset.name, preset)


UEC_HTSIM = _add(
    Preset(
        name="uec-htsim",
        summary="Ultra Ethernet as uet-htsim models it: NSCC, bitmap and recycled entropies, trimming.",
        settings=Settings(
            congestion_control="nscc",
            load_balancing="mixed",
            paths=64,
            mtu_bytes=4150,
            header_bytes=64,
            trim=True,
            sack_bytes=16384,
            quick_adapt_gate=3,
            pull_rate=0.99,
            link_rate_bps=400 * 10**9,
            link_latency_ps=10**6,
            switch_latency_ps=0,
            start_unit="us",
        ),
        sources=(
            "ultraethernet/uet-htsim, commit 40ccb05: sim/datacenter/main_uec.cpp: command line, queues, thresholds",
            "ultraethernet/uet-htsim, commit 40ccb05: sim/uec.cpp: NSCC, RCCC, acknowledgements",
        ),
        left_out=(
            "the PCIe model of `-pcie`",
            "SLEEK, the loss recovery of `-sleek`",
            "several ports a NIC (`-planes`)",
        ),
    )
)
