"""Tests of acceptance written from the model of a plan.

Collectives take what the model expects of the cluster, by the engine `flow`, within the band of eight of ten logs that
no constant had seen (`collective.model_error`). Groups of equal scope, size and shape below their leaves are expected
to be equal; pods and rails are computed one by one, since hashes differ.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import exp, sqrt
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.accept.tests import (
    BURN,
    CABLE,
    COUNTERS,
    LOST,
    NCCL,
    PRE_FEC,
    SYMBOLS,
    WRITE,
    ExpectedValue,
    NicEnd,
    Test,
    TestGroup,
    groups,
    pairs,
)
from railyard.ask.deploy.cabling import is_infiniband, port_names
from railyard.ask.observe.expected import collective_s
from railyard.ask.observe.kernels import BUSBW
from railyard.cluster.network_table import dialect
from railyard.collective.model_error import band_of
from railyard.kit.quantities import halved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from railyard.ask.deploy.cabling import CablingPlan


@dataclass(frozen=True)
class Limit:
    """Loss that a PHY may have.

    Attributes:
        code_bits: Of a codeword, `SHORT_BITS` or `LONG_BITS`.
    """

    pre_fec: float
    frame_loss: float
    interleaved: int
    code_bits: int

    @property
    def codewords(self) -> float:
        """Part of the codewords that may be lost: a frame of 512 bits meets one of 5,140 and its parts in others."""
        return self.frame_loss / (self.interleaved + FRAME_SHARE)


FRAME_SHARE = 0.125
"""Share of codeword loss for a lone frame of 64 octets, eight of which are a codeword: frame loss is (1 + 8 x) / 8 of
codeword loss with x interleaved, which are 2 at 200 and 400 Gb/s and 4 at 800 ("FEC FLR support in SONiC", 0.2, 2025,
after IEEE 802.3df's logic ad hoc, opsasnick_3df_logic_220630a)."""

SHORT_BITS, LONG_BITS = 5280, 5440
"""Bits that RS(528,514) and RS(544,514) add."""

LIMITS = {
    25_000_000_000: Limit(5e-5, 6.2e-10, 1, SHORT_BITS),  # 112.1.1, 25GBASE-SR with RS(528,514)
    50_000_000_000: Limit(2.4e-4, 6.2e-10, 1, LONG_BITS),  # 138.1.1, 50GBASE-SR
    100_000_000_000: Limit(5e-5, 6.2e-10, 1, SHORT_BITS),  # 95.1.1, 100GBASE-SR4 with RS(528,514)
    200_000_000_000: Limit(2.4e-4, 1.7e-12, 2, LONG_BITS),  # 121.1.1, 200GBASE-DR4
    400_000_000_000: Limit(2.4e-4, 1.7e-12, 2, LONG_BITS),  # 124.1.1, 400GBASE-DR4
    800_000_000_000: Limit(2.4e-4, 1.7e-12, 4, LONG_BITS),  # 124.1.1 as of 802.3df, 800GBASE-DR8
}
"""Limits by rate, bit/s. 100 Gb/s is taken for four lanes of 25; one or two PAM4 lanes may have 2.4e-4."""

INFINIBAND = 1e-12
"""Bit errors a bit that InfiniBand allows a link (IBTA, volume 2; NVIDIA, DGX SuperPOD cabling guide, "Bit Error
Rate": less than one error in 10^12 bits, though its own are tested to 10^15). A symbol error is one at least."""

SURE = 3.0
"""Errors that the limit would have made: where none was seen, the limit holds with 95 % (1 - e^-3)."""

CODEWORD_BITS = 5140
"""Data bits in a codeword of either Reed-Solomon code; 256 bits of blocks are 257 there (802.3 clauses 91, 119)."""

_Z = 1.6449
_EXACT = 60


def per_second(unit: str, rate_bps: float) -> float:
    """What is judged, a second: codewords, their bits, or InfiniBand's bits; codewords run with no traffic, too."""
    if unit == SYMBOLS:
        return rate_bps
    codewords = rate_bps * 257 / 256 / CODEWORD_BITS
    if unit == LOST:
        return codewords
    limit = LIMITS.get(round(rate_bps))  # a rate that somebody wrote into tests.csv has the longer code
    return codewords * (LONG_BITS if limit is None else limit.code_bits)


def at_least(count: int) -> float:
    """Mean of a Poisson law that so many events show with 95 %: smaller means give as many in 5 % of cases."""
    if count > _EXACT:  # Wilson and Hilferty, 1931: within 0.1 % here
        return float(count * (1 - 1 / (9 * count) - _Z / (3 * sqrt(count))) ** 3)

    def rare(mean: float) -> bool:
        term = fewer = exp(-mean) if count else 0.0
        for number in range(1, count):
            term *= mean / number
            fewer += term
        return 1 - fewer < 0.05

    return halved(rare, 0.0, float(count), 60)[0]


def seconds_needed(limits: Mapping[str, float], rate_bps: float) -> float:
    """How long counters have to run for a link that makes no error to show that it keeps its limits."""
    return max(
        (SURE / (limit * per_second(unit, rate_bps)) for unit, limit in limits.items() if unit != PRE_FEC), default=0.0
    )


def limits_of(rate_bps: int, *, infiniband: bool) -> dict[str, float]:
    """Limits by unit; none for a rate whose PHY has no limit here."""
    if infiniband:
        return {SYMBOLS: INFINIBAND}
    limit = LIMITS.get(rate_bps)
    return {} if limit is None else {PRE_FEC: limit.pre_fec, LOST: limit.codewords}


def between_switches(plan: CablingPlan, labels: Mapping[int, str], system: str) -> Iterator[Test]:
    """Tests of every link between two switches."""
    level, cables = plan.devices.level, plan.cables
    for network in range(len(plan.networks)):
        infiniband = is_infiniband(plan, network)
        rows = np.flatnonzero((cables.network == network) & level[cables.ends].all(axis=1))
        for row, ports in zip(rows.tolist(), port_names(plan, rows, dialect(system)), strict=True):
            names = [plan.devices.name[end] for end in cables.ends[row].tolist()]
            ends = tuple(f"{name}:{port}" for name, port in zip(names, ports, strict=True))
            for unit, limit in limits_of(int(cables.rate_bps[row]), infiniband=infiniband).items():
                mark, name = ExpectedValue(0, 0.0, 0.0, limit), f"{_NAMES[unit]}-{labels[row]}"
                parts = (labels[row], *ends)
                yield Test(name, "cable", COUNTERS, "", 0, 0, unit, " ".join(names), parts, (mark,))


_NAMES = {PRE_FEC: "fec", LOST: "codewords", SYMBOLS: "symbols"}


COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")

FIRST_BYTES, LAST_BYTES, FACTOR = 1 << 16, 1 << 32, 16
"""Sizes of nccl-tests: 64 KiB, 1 MiB, 16 MiB, 256 MiB, 4 GiB."""

MOST_PAIRS = 1 << 22
"""Pairs of ranks up to which an all-to-all is tested: 2,048 ranks. Larger ones open more queue pairs than NICs keep."""

WRITE_BYTES = 8 << 20
"""Message size of ib_write_bw: large enough that only the link sets the rate."""

WRITE_LEAST = 0.98
"""Share of a link's payload rate. Logs have 0.997 to 1.001 of it (HDR 200, EFA 200), OCI's own floor for 400 Gb/s ports
is 0.992 (384 Gb/s); a lossy, untuned ConnectX-5 had 0.955."""


def planned(plan: CablingPlan, progress: Callable[[str, float], None], system: str = "sonic") -> list[Test]:
    """Tests in the order in which they are run: the smallest parts first."""
    labels = labelled(plan)
    tests = [*cables(plan, labels), *between_switches(plan, labels, system), *_burns(plan), *_writes(plan)]
    order = ("node", "leaf", "rail", "pod", "all")
    listed = sorted(groups(plan), key=lambda group: order.index(group.scope))
    known: dict[tuple[object, ...], tuple[ExpectedValue, ...]] = {}
    for number, group in enumerate(listed):
        progress(f"what {group.name} should reach", number / len(listed))
        tests += _collectives(plan, group, known)
    return tests


def _collectives(
    plan: CablingPlan, group: TestGroup, known: dict[tuple[object, ...], tuple[ExpectedValue, ...]]
) -> Iterator[Test]:
    ranks = len(group.ranks(plan.cluster.ranks_per_server))
    names = [plan.devices.name[server] for server in group.servers]
    alike = group.scope in ("node", "leaf")
    for kind in COLLECTIVES:
        if ranks < 2 or (kind == "all_to_all" and ranks * ranks > MOST_PAIRS):
            continue
        key = (group.scope, ranks, kind, None if alike else group.name)
        if key not in known:
            known[key] = tuple(_marks(plan, group, kind))
        hosts = " ".join(names) if len(names) <= 2 else _list_of(group)
        yield Test(f"{group.name}-{kind}", group.scope, NCCL, kind, len(names), ranks, "GB/s", hosts, (), known[key])


def _list_of(group: TestGroup) -> str:
    return "all" if group.scope == "rail" else group.name


def _marks(plan: CablingPlan, group: TestGroup, kind: str) -> Iterator[ExpectedValue]:
    members = group.ranks(plan.cluster.ranks_per_server)
    size = FIRST_BYTES
    while size <= LAST_BYTES:
        seconds = collective_s(plan.cluster, kind, size, members)
        if seconds:
            expected = size * BUSBW[kind](len(members)) / seconds / 1e9
            band = band_of(kind.replace("_", "-"), size)
            yield ExpectedValue(size, expected, expected / max(band.high, 1.0), expected / min(band.low, 1.0))
        size *= FACTOR


def _writes(plan: CablingPlan) -> Iterator[Test]:
    share = plan.cluster.fabric.payload_efficiency
    for one, other in pairs(plan):
        rate = min(float(plan.cables.rate_bps[end.row]) for end in (one, other)) / 1e9
        mark = ExpectedValue(WRITE_BYTES, rate * share, WRITE_LEAST * rate * share, rate)
        names = [plan.devices.name[end.server] for end in (one, other)]
        yield Test(
            f"write-{names[0]}-{one.nic}-{names[1]}-{other.nic}",
            "pair",
            WRITE,
            "",
            2,
            0,
            "Gb/s",
            " ".join(names),
            (nic(plan, one), nic(plan, other)),
            (mark,),
        )


def nic(plan: CablingPlan, end: NicEnd) -> str:
    """`node3:mlx5_0`."""
    return f"{plan.devices.name[end.server]}:mlx5_{end.nic}"


def _burns(plan: CablingPlan) -> Iterator[Test]:
    for name in plan.devices.name[: plan.devices.servers]:
        yield Test(
            f"burn-{name}", "server", BURN, "", 1, 0, "faults", name, (name,), (ExpectedValue(0, 0.0, 0.0, 0.0),)
        )


def labelled(plan: CablingPlan) -> dict[int, str]:
    """Labels by row, in pull order; links that share a cable are counted behind its label."""
    seen: Counter[str] = Counter()
    out = {}
    for row in plan.order.argsort().tolist():
        label = plan.label(row)
        seen[label] += 1
        out[row] = label + (f"-{seen[label]}" if seen[label] > 1 else "")
    return out


def cables(plan: CablingPlan, labels: Mapping[int, str]) -> Iterator[Test]:
    """Every link once."""
    rows, name = plan.cables, plan.devices.name
    for row, named in labels.items():
        label, rate = plan.label(row), float(rows.rate_bps[row]) / 1e9
        test = f"{CABLE}-{named}"
        hosts = f"{name[int(rows.a[row])]} {name[int(rows.b[row])]}"
        yield Test(test, "cable", CABLE, "", 0, 0, "Gb/s", hosts, (label,), (ExpectedValue(0, rate, rate, rate),))
