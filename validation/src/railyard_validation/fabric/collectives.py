"""F7, F8 and F10: collectives in one scale-up domain, over two servers, and across domains."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard import catalog
from railyard.ask.calibrate.nccl.log import bus_factor
from railyard.ask.calibrate.nccl.machine import LogMachine
from railyard.ask.calibrate.nccl.rows import predict
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.topology import RailOptimized
from railyard.collective import CollectivePolicy
from railyard_validation.fabric.figure import Case, Row, figure

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE = 16 << 30
_ENGINE = "collectives"


@lru_cache(maxsize=1)
def _known() -> catalog.Catalog:
    return catalog.load()


def _time_us(
    server: str,
    ranks: int,
    collective: str,
    size_bytes: int,
    *,
    fabric: str = "infiniband",
    domain: int | None = None,
) -> float:
    of_server = _known().server(server).accelerators
    own: dict[str, dict[str, Any]] = {} if domain is None else {"server": {"scale_up_domain": domain}}
    spec = ClusterSpec(
        accelerators=-(-ranks // of_server) * of_server,
        server=server,
        back_end=NetworkSpec(RailOptimized(), FabricSpec(fabric)),
        overrides=own,
    )
    where = LogMachine(build(spec, _known()), CollectivePolicy(), ())
    return predict(where, collective, ranks, np.array([size_bytes], np.int64))[size_bytes][0]


def _busbw(server: str, ranks: int, collective: str, **more: Any) -> float:
    """Bus bandwidth at the largest size, GB/s."""
    return LARGE * bus_factor(collective, ranks) / 1e3 / _time_us(server, ranks, collective, LARGE, **more)


_SYNC = "one constant of in-switch synchronization stands for domains of 4 to 64 accelerators"
_ONE_SERVER = [
    ("hgx-h200", 4, 363.0), ("hgx-h200", 5, 414.0), ("hgx-h200", 6, 436.0), ("hgx-h200", 7, 460.0),
    ("hgx-h200", 8, 473.0), ("hgx-h100", 8, 480.0), ("dgx-a100", 8, 235.0), ("hgx-b200", 8, 843.0),
]  # fmt: skip


@figure(
    "F7",
    claim="Reduction in the NVLink switch beats the ring, the more the more accelerators take part",
    scenario="all-reduce of 16 GiB in one server, bus bandwidth",
    source="published logs of nccl-tests (H200: ml-engineering; H100, A100, B200)",
)
def in_switch() -> Iterator[Row]:
    """All-reduce in one server."""
    for server, ranks, expected in _ONE_SERVER:
        found = _busbw(server, ranks, "all-reduce")
        case = Case("F7", f"{ranks} x {server}", "GB/s", _ENGINE, _SYNC if ranks == 5 else "")
        yield case.relative(expected, found, by=0.03)


@figure(
    "F8",
    claim="Two servers of eight H100 reach one server's bandwidth over any good network; only floors differ",
    scenario="all-reduce over 2 x 8 H100, 8 B and 16 GiB",
    source="published logs of nccl-tests over InfiniBand, RoCE and EFA",
)
def two_servers() -> Iterator[Row]:
    """Floor and plateau over three networks."""
    for case, server, expected, more in (
        ("InfiniBand", "hgx-h100", 467.0, {"fabric": "infiniband"}),
        ("RoCE", "oci-bm-gpu-h100-8", 471.0, {"fabric": "roce"}),
        ("EFA", "aws-p5", 487.0, {"fabric": "uec"}),
    ):
        found = _busbw(server, 16, "all-reduce", **more)
        yield Case("F8", f"{case}, 16 GiB", "GB/s", _ENGINE).relative(expected, found, by=0.10)
    floor = _time_us("hgx-h100", 16, "all-reduce", 8, fabric="infiniband")
    low = Case("F8", "InfiniBand, 8 B", "us", _ENGINE)
    yield low.between("28 to 46", floor, low=28 * 0.75, high=46 * 1.25, tolerance="+-25 %")
    note = "the time of a step over EFA is that of other published curves"
    found = _time_us("aws-p5", 16, "all-reduce", 8, fabric="uec")
    yield Case("F8", "EFA, 8 B", "us", _ENGINE, note).relative(69.0, found, by=0.25)


@figure(
    "F10",
    claim="An all-to-all that leaves the scale-up domain falls to the line of the NICs",
    scenario="all-to-all of 16 GiB over GB200 racks and over servers of eight MI355X, bus bandwidth",
    source="published logs of nccl-tests (GB200, OCI) and rccl-tests (MI355X with Pollara NICs)",
)
def leaving_the_domain() -> Iterator[Row]:
    """All-to-all inside a domain and over two and three or four of them."""
    for ranks, expected in ((64, 623.0), (128, 89.7), (192, 62.5)):
        found = _busbw("oci-bm-gpu-gb200-4", ranks, "all-to-all", fabric="roce", domain=64)
        yield Case("F10", f"GB200, {ranks} in racks of 64", "GB/s", _ENGINE).relative(expected, found, by=0.10)
    for ranks, expected in ((8, 361.0), (16, 86.6), (32, 50.6)):
        found = _busbw("mi355x-8", ranks, "all-to-all", fabric="roce")
        yield Case("F10", f"MI355X, {ranks} in servers of 8", "GB/s", _ENGINE).relative(expected, found, by=0.10)
