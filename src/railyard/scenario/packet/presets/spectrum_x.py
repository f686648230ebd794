"""Spectrum-X: Ethernet that places every packet by load, and interfaces that take them in any order."""

from railyard.engine.packet.roce import SPECTRUM_X
from railyard.scenario.packet.presets.preset import Preset, add
from railyard.scenario.packet.settings import Settings

SPECTRUM_X_PRESET = add(
    Preset(
        name="spectrum-x",
        summary="Lossless Ethernet with adaptive routing a packet and placement out of order, after Spectrum-X.",
        settings=Settings(**SPECTRUM_X),
        sources=("docs/explanation/packet-rdma.md: which parameters are public, how we put them together",),
        left_out=(
            "how switches weigh queues (unpublished): the shortest of the equal-cost queues in four bands is taken",
            "how the control puts its parameters together (unpublished): our reading",
            "planes of one interface and their failover",
        ),
    )
)
