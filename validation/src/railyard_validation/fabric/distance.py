"""F12: failures, and fabrics that lose a part."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.packet import Settings, Traffic, leaf_spine, run
from railyard.engine.packet.faults import down, of_node
from railyard.measure.job import Reliability
from railyard_validation.fabric.figure import Case, Row, figure
from railyard_validation.fabric.packets import ELEPHANT_BYTES, RATE_BPS

if TYPE_CHECKING:
    from collections.abc import Iterator

_GPUS = 16_384
_PLANES = 76
_AT_PS = 200_000_000
_END_PS = 60_000_000_000


@figure(
    "F12",
    claim="A job of 16,384 is interrupted every three hours; a lost plane costs its share; sprays route around at once",
    scenario="interruptions of Llama 3; 76 hosts over 76 planes, one of them gone; 16 elephants over 32 spines, one of "
    "which dies under way and no switch ever learns of it; 100 Gb/s between sites, DCQCN",
    source="Llama 3 (arXiv 2407.21783); NCCLX (Meta); REPS (ETH Zurich and Microsoft); HPE Juniper DCI test",
)
def failures() -> Iterator[Row]:
    """What failures cost."""
    hours = Reliability().mtbf_h.typical / _GPUS
    note = "the default rate of failures is taken from the same source"
    often = Case("F12", "between interruptions, 16,384 accelerators", "h", "economics", note)
    yield often.relative(3.1, hours, by=0.10)
    lost = 100 * _one_plane_lost()
    yield Case("F12", f"1 of {_PLANES} planes lost, bandwidth", "%").absolute(1.3, lost, by=0.3)
    reps = _slowdown_us("reps")
    yield Case("F12", "a spine dies, REPS: longer by", "us").between("under 100", reps, high=100)
    hashed = Case("F12", "a spine dies, one path: longer by", "us", note="the run is ended at 60 ms")
    yield hashed.between("until NCCL gives up, 30 s", _slowdown_us("ecmp"), low=_END_PS / 2e6)
    note = "how the test paused senders between sites and at what rate they began is not in its report"
    far = Case("F12", "100 Gb/s over 50 to 500 km, DCQCN", "%", note=note)
    yield far.not_built("100, no loss; 99.5 and 99.99 with 8 and 16 queue pairs", "+-2 %")


def _one_plane_lost() -> float:
    """Share of the mean rate that goes with one plane."""
    network = leaf_spine(2 * _PLANES, leaf_hosts=_PLANES, spines=_PLANES, rate_bps=RATE_BPS)
    host = np.arange(_PLANES)
    traffic = Traffic.of(2 * _PLANES, host, host + _PLANES, ELEPHANT_BYTES)
    whole = Settings(load_balancing="adaptive")
    gone = tuple(down(of_node(network, 2 * _PLANES + 2), 0))
    without = replace(whole, faults=gone, reroute_ps=0)
    times = [run(network, traffic, settings).duration_ps.mean() for settings in (whole, without)]
    return float(1 - times[0] / times[1])


def _slowdown_us(balancing: str) -> float:
    """How much later the flow ends that suffers most from a spine's death, us."""
    network = leaf_spine(64, leaf_hosts=32, spines=32, rate_bps=RATE_BPS)
    host = np.arange(16)
    traffic = Traffic.of(64, host, host + 32, ELEPHANT_BYTES)
    well = Settings(load_balancing=balancing, reroute_ps=None, end_ps=_END_PS)
    dead = tuple(down(of_node(network, 64 + 2 + 5), _AT_PS))
    before, after = (run(network, traffic, settings).end_ps for settings in (well, replace(well, faults=dead)))
    return float((np.where(after < 0, _END_PS, after) - before).max()) / 1e6
