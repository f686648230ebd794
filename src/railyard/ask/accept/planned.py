"""Tests of acceptance written from the model of a plan.

Collectives take what the model expects of the cluster, by the engine `flow`, within the band of eight of ten logs that
no constant had seen (`collective.model_error`). Groups of equal scope, size and shape below their leaves are expected
to be equal; pods and rails are computed one by one, since hashes differ.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from railyard.ask.accept.bit_errors import between_switches
from railyard.ask.accept.groups import Group, groups
from railyard.ask.accept.pairs import End, pairs
from railyard.ask.accept.tests import BURN, CABLE, NCCL, WRITE, Mark, Test
from railyard.ask.observe.collective_names import BUSBW
from railyard.ask.observe.expected import collective_s
from railyard.collective.model_error import band_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from railyard.ask.deploy.plan.cabling import Plan

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")

FIRST_BYTES, LAST_BYTES, FACTOR = 1 << 16, 1 << 32, 16
"""Sizes of nccl-tests: 64 KiB, 1 MiB, 16 MiB, 256 MiB, 4 GiB."""

MOST_PAIRS = 1 << 22
"""Pairs of ranks up to which an all-to-all is tested: 2,048 ranks. Larger ones open more queue pairs than NICs keep."""

WRITE_BYTES = 8 << 20
"""Of ib_write_bw: large enough that nothing but the link sets the rate."""

WRITE_LEAST = 0.98
"""Of a link's payload rate. Logs have 0.997 to 1.001 of it (HDR 200, EFA 200), OCI's own floor for 400 Gb/s ports is
0.992 (384 Gb/s); a lossy, untuned ConnectX-5 had 0.955."""


def planned(plan: Plan, progress: Callable[[str, float], None], system: str = "sonic") -> list[Test]:
    """All tests in the order in which they are run: the smallest parts first.

    Args:
        plan: What is built.
        progress: Takes what is being done, and its share from 0 to 1.
        system: Of Ethernet switches, by whose names ports are called.
    """
    labels = labelled(plan)
    tests = [*cables(plan, labels), *between_switches(plan, labels, system), *_burns(plan), *_writes(plan)]
    order = ("node", "leaf", "rail", "pod", "all")
    listed = sorted(groups(plan), key=lambda group: order.index(group.scope))
    known: dict[tuple[object, ...], tuple[Mark, ...]] = {}
    for number, group in enumerate(listed):
        progress(f"what {group.name} should reach", number / len(listed))
        tests += _collectives(plan, group, known)
    return tests


def _collectives(plan: Plan, group: Group, known: dict[tuple[object, ...], tuple[Mark, ...]]) -> Iterator[Test]:
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


def _list_of(group: Group) -> str:
    """Rails are over all servers."""
    return "all" if group.scope == "rail" else group.name


def _marks(plan: Plan, group: Group, kind: str) -> Iterator[Mark]:
    members = group.ranks(plan.cluster.ranks_per_server)
    size = FIRST_BYTES
    while size <= LAST_BYTES:
        seconds = collective_s(plan.cluster, kind, size, members)
        if seconds:
            expected = size * BUSBW[kind](len(members)) / seconds / 1e9
            band = band_of(kind.replace("_", "-"), size)
            yield Mark(size, expected, expected / max(band.high, 1.0), expected / min(band.low, 1.0))
        size *= FACTOR


def _writes(plan: Plan) -> Iterator[Test]:
    share = plan.cluster.fabric.payload_efficiency
    for one, other in pairs(plan):
        rate = min(float(plan.cables.rate_bps[end.row]) for end in (one, other)) / 1e9
        mark = Mark(WRITE_BYTES, rate * share, WRITE_LEAST * rate * share, rate)
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


def nic(plan: Plan, end: End) -> str:
    """`node3:mlx5_0`."""
    return f"{plan.devices.name[end.server]}:mlx5_{end.nic}"


def _burns(plan: Plan) -> Iterator[Test]:
    for name in plan.devices.name[: plan.devices.servers]:
        yield Test(f"burn-{name}", "server", BURN, "", 1, 0, "faults", name, (name,), (Mark(0, 0.0, 0.0, 0.0),))


def labelled(plan: Plan) -> dict[int, str]:
    """By row, in pull order; links that share a cable are counted behind its label."""
    seen: Counter[str] = Counter()
    out = {}
    for row in plan.cables.order.argsort().tolist():
        label = plan.label(row)
        seen[label] += 1
        out[row] = label + (f"-{seen[label]}" if seen[label] > 1 else "")
    return out


def cables(plan: Plan, labels: Mapping[int, str]) -> Iterator[Test]:
    """Every link once."""
    rows, name = plan.cables, plan.devices.name
    for row, named in labels.items():
        label, rate = plan.label(row), float(rows.rate_bps[row]) / 1e9
        test = f"{CABLE}-{named}"
        hosts = f"{name[int(rows.a[row])]} {name[int(rows.b[row])]}"
        yield Test(test, "cable", CABLE, "", 0, 0, "Gb/s", hosts, (label,), (Mark(0, rate, rate, rate),))
