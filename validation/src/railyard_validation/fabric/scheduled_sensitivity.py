"""How much the unpublished constants of a scheduled fabric matter: each over its range, the others as they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.engine.packet import PacketNetwork, Settings, Traffic
    from railyard.graph import Record

RANGES: dict[str, tuple[float | int, ...]] = {
    "scheduled_cell_bytes": (64, 128, 256, 512, 1024),
    "scheduled_cell_header_bytes": (4, 8, 16, 32),
    "scheduled_credit_bytes": (1024, 2048, 4096, 8192, 16384, 65536),
    "scheduled_credit_rate": (0.95, 1.0, 1.03, 1.06, 1.2),
    "scheduled_fabric_speedup": (0.8, 1.0, 1.06, 160 / 144, 1.3),
    "scheduled_grant_ps": (0, 100_000, 1_000_000, 3_000_000, 10_000_000),
    "scheduled_egress_bytes": (20_000, 50_000, 100_000, 215_000, 1_000_000),
}
"""What is tried of each constant."""

CASES = {
    "packet": "one packet of 4 kB through an empty fabric",
    "permutation": "every host sends 2 MB to another: the last flow",
    "all to all": "every host sends 2 MB to all others together: the last flow",
    "incast": "32 hosts send 2 MB to one: the last flow",
}
"""What is measured."""

_HOSTS, _LEAF_HOSTS = 64, 8
_RATE_BPS = 400 * 10**9


@dataclass(frozen=True)
class Sensitivity:
    """One run.

    Attributes:
        key: The constant that differs from its default.
        value: Its value.
        default: Whether that is the default.
        case: One of `CASES`.
        time_us: Completion time, microseconds.
        bound_us: The least time possible: the bytes over the rate, the links' latency both ways.
        element_bytes: Most bytes that waited for a link of an element.
    """

    key: str
    value: float
    default: bool
    case: str
    time_us: float
    bound_us: float
    element_bytes: int


def sensitivity(*, progress: Callable[[str, float], None] | None = None) -> list[Sensitivity]:
    """Runs every case for every value of every constant.

    Args:
        progress: Called with (constant, share done).
    """
    from railyard.engine.packet import leaf_spine

    network = leaf_spine(_HOSTS, leaf_hosts=_LEAF_HOSTS, spines=_LEAF_HOSTS, rate_bps=_RATE_BPS)
    settings = _defaults()
    rows: list[Sensitivity] = []
    for done, (key, values) in enumerate(RANGES.items()):
        if progress:
            progress(key, done / len(RANGES))
        for value in values:
            rows += [_row(network, settings, key, value, case) for case in CASES]
    return rows


def _defaults() -> Settings:
    from railyard.engine.packet import Settings

    return Settings(
        transport="rdma",
        switching="scheduled",
        load_balancing="ecmp",
        mtu_bytes=4178,
        header_bytes=82,
        rdma_control_bytes=86,
        trim=False,
    )


def _row(network: PacketNetwork, settings: Settings, key: str, value: float, case: str) -> Sensitivity:
    from railyard.engine.packet import run

    traffic, at_one_port = _traffic(case)
    found: Record = run(network, traffic, replace(settings, **{key: value}))
    payload = settings.mtu_bytes - settings.header_bytes
    wire = at_one_port + settings.header_bytes * -(-at_one_port // payload)
    latency = 8 * int(network.latency_ps[0])
    base = getattr(settings, key)
    return Sensitivity(
        key=key,
        value=float(value),
        default=bool(base is not None and np.isclose(float(base), float(value))),
        case=case,
        time_us=float(found.end_ps.max()) / 1e6,
        bound_us=wire * 8e6 / _RATE_BPS + latency / 1e6,
        element_bytes=found.meta["scheduled"]["element_bytes"] if "scheduled" in found.meta else 0,
    )


def _traffic(case: str) -> tuple[Traffic, int]:
    """The flows and the payload that the busiest port gets."""
    from railyard.engine.packet import Traffic

    host = np.arange(_HOSTS)
    if case == "packet":
        return Traffic.of(_HOSTS, 0, _HOSTS - 1, 4096), 4096
    if case == "permutation":
        order = np.random.default_rng(5).permutation(_HOSTS)
        return Traffic.of(_HOSTS, order, np.roll(order, 11), 2_000_000), 2_000_000
    if case == "incast":
        return Traffic.of(_HOSTS, np.arange(8, 40), 0, 2_000_000), 64_000_000
    source, target = np.repeat(host, _HOSTS), np.tile(host, _HOSTS)
    other = source != target
    size = 2_000_000 // (_HOSTS - 1)
    return Traffic.of(_HOSTS, source[other], target[other], size), size * (_HOSTS - 1)
