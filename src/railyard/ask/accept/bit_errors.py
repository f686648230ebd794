"""Cables between switches by what their counters may show: limits of bit errors, and the tests that hold them.

Limits are those of IEEE 802.3 for the PHY of a rate, and of InfiniBand. The clauses of 802.3 are from memory, as the
standard is not public; a row of `tests.csv` may be given another bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt
from typing import TYPE_CHECKING

from railyard.ask.accept.tests import COUNTERS, LOST, PRE_FEC, SYMBOLS, Mark, Test
from railyard.ask.deploy.plan.drawn import drawn, is_infiniband
from railyard.cluster.asbuilt.port_names import dialect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from railyard.ask.deploy.plan.cabling import Plan


@dataclass(frozen=True)
class Limit:
    """What a PHY may lose.

    Attributes:
        pre_fec: Bit error ratio before correction.
        frame_loss: Of frames of 64 octets.
        interleaved: Codewords over which a frame is spread.
        code_bits: Of a codeword, `SHORT_BITS` or `LONG_BITS`.
        clause: Of IEEE 802.3.
    """

    pre_fec: float
    frame_loss: float
    interleaved: int
    code_bits: int
    clause: str

    @property
    def codewords(self) -> float:
        """Part of the codewords that may be lost: a frame of 512 bits meets one of 5,140 and its parts in others."""
        return self.frame_loss / (self.interleaved + FRAME_SHARE)


FRAME_SHARE = 0.125
"""Of a frame of 64 octets by itself, eight of which are a codeword: frame loss is (1 + 8 x) / 8 of codeword loss with x
interleaved, which are 2 at 200 and 400 Gb/s and 4 at 800 ("FEC FLR support in SONiC", 0.2, 2025, after IEEE 802.3df's
logic ad hoc, opsasnick_3df_logic_220630a)."""

SHORT_BITS, LONG_BITS = 5280, 5440
"""With what RS(528,514) and RS(544,514) add."""

LIMITS = {
    25_000_000_000: Limit(5e-5, 6.2e-10, 1, SHORT_BITS, "112.1.1, 25GBASE-SR with RS(528,514)"),
    50_000_000_000: Limit(2.4e-4, 6.2e-10, 1, LONG_BITS, "138.1.1, 50GBASE-SR"),
    100_000_000_000: Limit(5e-5, 6.2e-10, 1, SHORT_BITS, "95.1.1, 100GBASE-SR4 with RS(528,514)"),
    200_000_000_000: Limit(2.4e-4, 1.7e-12, 2, LONG_BITS, "121.1.1, 200GBASE-DR4"),
    400_000_000_000: Limit(2.4e-4, 1.7e-12, 2, LONG_BITS, "124.1.1, 400GBASE-DR4"),
    800_000_000_000: Limit(2.4e-4, 1.7e-12, 4, LONG_BITS, "124.1.1 as of 802.3df, 800GBASE-DR8"),
}
"""By rate, bit/s. 100 Gb/s is taken for four lanes of 25; one or two PAM4 lanes may have 2.4e-4."""

INFINIBAND = 1e-12
"""Bit errors a bit that InfiniBand allows a link (IBTA, volume 2; NVIDIA, DGX SuperPOD cabling guide, "Bit Error
Rate": less than one error in 10^12 bits, though its own are tested to 10^15). A symbol error is one at least."""

SURE = 3.0
"""Errors that the limit would have made: where none was seen, the limit holds with 95 % (1 - e^-3)."""

CODEWORD_BITS = 5140
"""Of data in a codeword of either Reed-Solomon code; 256 bits of blocks are 257 there (802.3 clauses 91, 119)."""

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
    low, high = 0.0, float(count)
    for _ in range(60):
        middle = (low + high) / 2
        term = fewer = exp(-middle) if count else 0.0
        for number in range(1, count):
            term *= middle / number
            fewer += term
        low, high = (middle, high) if 1 - fewer < 0.05 else (low, middle)
    return low


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


def between_switches(plan: Plan, labels: Mapping[int, str], system: str) -> Iterator[Test]:
    """Tests of every link between two switches.

    Args:
        plan: What is built.
        labels: Of its cables' rows.
        system: Of Ethernet switches, by whose names ports are called.
    """
    level, cables = plan.devices.level, plan.cables
    for network in range(len(plan.networks)):
        infiniband = is_infiniband(plan, network)
        there = drawn(plan, network, dialect("infiniband" if infiniband else system))
        rows = [row for row, one in enumerate(cables.network.tolist()) if one == network]
        for row, found in zip(rows, there.cables, strict=True):
            if not (level[cables.a[row]] and level[cables.b[row]]):
                continue
            names = [plan.devices.name[int(end)] for end in (cables.a[row], cables.b[row])]
            ends = f"{names[0]}:{found.a_port}", f"{names[1]}:{found.b_port}"
            for unit, limit in limits_of(int(cables.rate_bps[row]), infiniband=infiniband).items():
                mark, name = Mark(0, 0.0, 0.0, limit), f"{_NAMES[unit]}-{labels[row]}"
                parts = (labels[row], *ends)
                yield Test(name, "cable", COUNTERS, "", 0, 0, unit, " ".join(names), parts, (mark,))


_NAMES = {PRE_FEC: "fec", LOST: "codewords", SYMBOLS: "symbols"}
