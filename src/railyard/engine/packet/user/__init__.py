"""Congestion control and load balancing that a user writes in Python, compiled by Numba to the speed of the core.

    from railyard.engine import packet

    @packet.controls.register("halving")
    @packet.control
    class Halving:
        state = {"last_cut_ps": 0}

        def on_ack(flow, ack, network):
            flow.rate_bps = min(flow.rate_bps + 1e6, network.rate_bps)

        def on_cnp(flow, now_ps, network):
            flow.rate_bps = max(flow.rate_bps / 2, 1e8)

Registered, it is called by its name, as those of the core are; else `user:FILE.py:Halving` names it.

The records are described in `records`, the functions in `control` and `balancer`; a guide with examples is
`docs/how-to/congestion-control.md`.
"""

from railyard.engine.packet.user.balancer import GOOD, MARKED, TIMEOUT, TRIMMED, UserBalancer, balancer, balancers
from railyard.engine.packet.user.control import UserControl, control, controls
from railyard.engine.packet.user.loading import load
from railyard.engine.packet.user.records import SLOTS, signature

__all__ = [
    "GOOD",
    "MARKED",
    "SLOTS",
    "TIMEOUT",
    "TRIMMED",
    "UserBalancer",
    "UserControl",
    "balancer",
    "balancers",
    "control",
    "controls",
    "load",
    "signature",
]
