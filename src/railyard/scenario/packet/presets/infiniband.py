"""InfiniBand, with routes by destination or adaptive."""

from railyard.engine.packet.infiniband import INFINIBAND, INFINIBAND_AR
from railyard.scenario.packet.presets.preset import Preset, add
from railyard.scenario.packet.settings import Settings

_HOP_PS = 450_000
_SOURCES = ("docs/explanation/packet-infiniband.md: constants with their sources",)
_LEFT_OUT = (
    "the 1.9 us that a message spends in two interfaces and on PCIe",
    "the speed at which an input buffer is read: it feeds any number of egresses at once",
    "congestion notification between switches and hosts (FECN, BECN) unless `link_credit_mark` and a control are set",
    "the head-of-queue lifetime: a packet that waits long is not dropped",
)

INFINIBAND_PRESET = add(
    Preset(
        name="infiniband",
        summary="InfiniBand NDR: credits on links, routes by destination, reliable connections at line rate.",
        settings=Settings(**INFINIBAND, link_rate_bps=400 * 10**9, link_latency_ps=_HOP_PS),
        sources=_SOURCES,
        left_out=_LEFT_OUT,
    )
)

INFINIBAND_AR_PRESET = add(
    Preset(
        name="infiniband-ar",
        summary="The same with adaptive routing: each packet by the least loaded of the equal-cost links.",
        settings=Settings(**INFINIBAND_AR, link_rate_bps=400 * 10**9, link_latency_ps=_HOP_PS),
        sources=_SOURCES,
        left_out=_LEFT_OUT,
    )
)
