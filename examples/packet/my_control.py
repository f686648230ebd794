"""Congestion controls and load balancers of one's own, compiled by Numba. See docs/how-to/congestion-control.md.

railyard packet --traffic T.cm --fabric roce --set congestion_control=user:examples/packet/my_control.py:Dcqcn
railyard packet --traffic T.cm --fabric uec --set load_balancing=user:examples/packet/my_control.py:StickyPaths
"""

import numba

from railyard.engine import packet


@packet.control
class Halving:
    """A packet more each round trip, half as much after a marked one."""

    state = {"cut_at_ps": -1}

    def on_open(flow, now_ps, network):
        flow.window_bytes = int(network.rate_bps / 8 * network.base_rtt_ps * 1e-12)

    def on_ack(flow, ack, network):
        packet_bytes = network.mtu_bytes
        if ack.marked and ack.now_ps - flow.cut_at_ps > network.base_rtt_ps:
            flow.window_bytes = max(flow.window_bytes // 2, packet_bytes)
            flow.cut_at_ps = ack.now_ps
        elif not ack.marked:
            flow.window_bytes += packet_bytes * ack.fresh_bytes // flow.window_bytes


# DCQCN as in the paper (Zhu et al., SIGCOMM 2015); the constants are those of the setting dcqcn_*.
G = 1 / 256
ALPHA_INTERVAL_PS = 55_000_000
INCREASE_INTERVAL_PS = 55_000_000
BYTE_COUNTER = 10_000_000
FAST_RECOVERY = 5
ADDITIVE_BPS = 40e6
HYPER_BPS = 200e6
MIN_RATE_BPS = 10e6


@numba.njit
def rise(flow):
    """Half way to the target, which itself rises after five steps, and faster once timer and bytes both say so."""
    more = max(flow.timer_stage, flow.byte_stage)
    less = min(flow.timer_stage, flow.byte_stage)
    if less > FAST_RECOVERY:
        flow.target_bps += HYPER_BPS * (less - FAST_RECOVERY)
    elif more >= FAST_RECOVERY:
        flow.target_bps += ADDITIVE_BPS
    flow.target_bps = min(flow.target_bps, flow.line_bps)
    flow.rate_bps = (flow.rate_bps + flow.target_bps) / 2
    if flow.line_bps - flow.rate_bps < 1:
        flow.rate_bps = flow.line_bps


@packet.control
class Dcqcn:
    """DCQCN, bit for bit what `congestion_control=dcqcn` does with the same constants."""

    state = {
        "line_bps": 0.0,
        "target_bps": 0.0,
        "alpha": 1.0,
        "alpha_at_ps": -1,
        "counted_bytes": 0,
        "timer_stage": 0,
        "byte_stage": 0,
    }

    def on_open(flow, now_ps, network):
        flow.line_bps = flow.rate_bps
        flow.target_bps = flow.rate_bps

    def on_cnp(flow, now_ps, network):
        if flow.alpha_at_ps >= 0:
            # Alpha decays in every interval without a notification: all of them at once, by squaring.
            ticks = (now_ps - flow.alpha_at_ps) // ALPHA_INTERVAL_PS
            kept, base = 1.0, 1 - G
            while ticks > 0:
                if ticks & 1:
                    kept *= base
                base *= base
                ticks >>= 1
            flow.alpha *= kept
        flow.target_bps = flow.rate_bps
        flow.rate_bps = max(MIN_RATE_BPS, flow.rate_bps * max(1 - flow.alpha / 2, 0.5))
        flow.timer_stage = 0
        flow.byte_stage = 0
        flow.counted_bytes = 0
        flow.timer_ps = now_ps + INCREASE_INTERVAL_PS
        flow.alpha = (1 - G) * flow.alpha + G
        flow.alpha_at_ps = now_ps

    def on_sent(flow, size_bytes, now_ps, network):
        if flow.timer_ps == 0:
            return
        flow.counted_bytes += size_bytes
        while flow.counted_bytes >= BYTE_COUNTER:
            flow.counted_bytes -= BYTE_COUNTER
            rise(flow)
            flow.byte_stage += 1

    def on_timer(flow, now_ps, network):
        rise(flow)
        flow.timer_stage += 1
        flow.timer_ps += INCREASE_INTERVAL_PS
        if flow.rate_bps >= flow.line_bps:
            flow.timer_ps = 0


@packet.balancer
class StickyPaths:
    """Keeps an entropy as long as what comes back over it is good, and draws another one otherwise."""

    state = {"entropy": -1}

    def next_entropy(path, now_ps, random, paths):
        if path.entropy < 0:
            path.entropy = random % paths
        return path.entropy

    def feedback(path, entropy, what, now_ps):
        if what != packet.GOOD and entropy == path.entropy:
            path.entropy = -1


@packet.balancer
class ShortestQueue:
    """Switches send every packet to the shortest of the equal-cost queues; among equals by lot."""

    def choose(ports, random, now_ps):
        best = random % len(ports)
        for at in range(len(ports)):
            if ports[at].queue_bytes < ports[best].queue_bytes:
                best = at
        return best
