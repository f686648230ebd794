"""Collective logs predicted with constants that were fitted without their operator.

Every constant that was read off logs is listed here with what it would be had nobody measured it: the library's own
constant, or nothing. To judge an operator, its logs are taken out; each constant that they feel is fitted to the other
operators' logs, one constant after another and twice, from these priors. One that no other operator's logs feel keeps
its prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.errors import InputError
from railyard_validation.collectives import nccl_log
from railyard_validation.collectives.compare import validate_log
from railyard_validation.collectives.constants import CONSTANTS as MEASURED
from railyard_validation.collectives.constants import Constants
from railyard_validation.collectives.health import listed_as_odd, number_of, operator_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from railyard.catalog import Catalog
    from railyard_validation.collectives.compare import CollectiveResult
    from railyard_validation.collectives.nccl_log import NcclLog

LARGEST = 0.7
"""Errors beyond exp(0.7) count as this: a log that something else ails must not pull a constant."""

PASSES = 2
STEPS = 10


@dataclass(frozen=True)
class Constant:
    """One constant that was read off logs.

    Attributes:
        name: Field of `Constants`, or of its `library`.
        prior: What it would be had nobody measured it.
        low: Least value that is tried.
        high: Largest value that is tried.
        key: Entry of it, where it is a table.
    """

    name: str
    prior: float
    low: float
    high: float
    key: str = ""

    @property
    def label(self) -> str:
        """Name and entry."""
        return f"{self.name}[{self.key}]" if self.key else self.name

    def get(self, constants: Constants) -> float:
        """Its value among these."""
        value = attrgetter(self.name)(constants)
        return float(value[self.key] if self.key else value)

    def put(self, constants: Constants, value: float) -> Constants:
        """These with another value of it."""
        field = self.name.removeprefix("library.")
        changed: Any = {**attrgetter(self.name)(constants), self.key: value} if self.key else value
        if field == self.name:
            return replace(constants, **{field: changed})
        return replace(constants, library=replace(constants.library, **{field: changed}))

    def grid(self) -> list[float]:
        """Values that are tried: even steps from zero, even factors otherwise; the prior too."""
        spread = np.linspace if self.low <= 0 else np.geomspace
        return sorted({self.prior, *(float(value) for value in spread(self.low, self.high, STEPS))})


KIB, US = 1 << 10, 1_000_000
CONSTANTS = (
    Constant("host_gpu_us", 0.0, 0.0, 9.0),
    Constant("host_channel_us", 0.0, 0.0, 0.6),
    Constant("host_peer_us", 0.0, 0.0, 1.8),
    Constant("start_us", 0.0, 0.0, 60.0),
    Constant("python_host_us", 0.0, 0.0, 78.0),
    Constant("python_events_us", 0.0, 0.0, 36.0),
    Constant("python_barrier_us", 0.0, 0.0, 60.0),
    Constant("cloud_stack_ps", 0.0, 0.0, 24.0 * US, "aws"),
    Constant("cloud_stack_ps", 0.0, 0.0, 36.0 * US, "google"),
    Constant("virtual_rdma_ps", 0.0, 0.0, 36.0 * US, "google"),
    Constant("tcpx_efficiency", 1.0, 0.4, 1.0),
    Constant("tcpx_idle_us", 0.0, 0.0, 1500.0),
    Constant("put_stack_ps", 0.0, 0.0, 18.0 * US),
    Constant("put_start_us", 0.0, 0.0, 90.0),
    Constant("library.software_us", 1.75, 1.0, 12.0, "ll"),
    Constant("library.software_us", 5.25, 2.0, 18.0, "ll128"),
    Constant("library.software_us", 10.75, 4.0, 24.0, "simple"),
    Constant("library.hop_factor", 1.0, 0.7, 3.0, "ampere"),
    Constant("library.hop_factor", 1.0, 0.7, 3.0, "blackwell"),
    Constant("library.simple_hop_factor", 1.0, 0.7, 3.0, "ampere"),
    Constant("library.gather_share", 1.0, 0.85, 1.0),
    Constant("library.peer_us", 0.0, 0.0, 1.0),
    Constant("library.rccl_peer_us", 0.0, 0.0, 2.4),
    Constant("library.peer_base_us", 6.6, 4.0, 16.0),
    Constant("library.peer_share", 1.0, 0.8, 1.0),
    Constant("library.switch_share", 0.85, 0.7, 1.0),
    Constant("library.switch_many_ranks", 1.0, 0.7, 1.0),
    Constant("library.chain_chunk_bytes", 512.0 * KIB, 16.0 * KIB, 512.0 * KIB),
    Constant("library.mesh_share", 1.0, 0.8, 1.0),
    Constant("library.mesh_peer_share", 1.0, 0.7, 1.0),
    Constant("library.switch_sync_us", 0.0, 0.0, 1.5, "hopper"),
    Constant("library.switch_sync_us", 0.0, 0.0, 2.0, "blackwell"),
    Constant("library.sync_beyond", 1.0, 0.0, 1.0),
    Constant("library.channel_gbs", 20.0, 10.0, 40.0),
    Constant("library.ll_channel_gbs", 10.0, 2.5, 20.0),
    Constant("library.ll_bytes", 64.0 * KIB, 16.0 * KIB, 2048.0 * KIB),
    Constant("library.fill_bytes", 512.0 * KIB, 32.0 * KIB, 512.0 * KIB),
)
"""Every constant of times that was read off published logs. HOP_FACTOR of Hopper is NCCL's own; Volta's is Ampere's."""


@dataclass(frozen=True)
class LeftOut:
    """One operator, judged without its logs.

    Attributes:
        operator: Who.
        logs: Its healthy logs that hold collectives.
        rows: Its rows under constants fitted without them.
        fitted: Those constants, by label.
        kept: Labels of constants that no other operator's logs feel: they kept their priors.
        before: Its rows under the constants as they stand.
    """

    operator: str
    logs: int
    rows: tuple[CollectiveResult, ...]
    fitted: Mapping[str, float]
    kept: tuple[str, ...]
    before: tuple[CollectiveResult, ...]


def left_out(folder: Path, catalog: Catalog) -> Iterator[LeftOut]:
    """Every operator of a folder of logs, judged without its own logs.

    Raises:
        InputError: The folder holds no healthy log of a collective.
    """
    listed = listed_as_odd(folder) if folder.is_dir() else frozenset()
    paths = sorted(path for path in folder.glob("*") if path.suffix in (".txt", ".log"))
    logs = [log for log in map(nccl_log.read, paths) if number_of(log) not in listed]
    logs = [log for log in logs if _rows([log], catalog, MEASURED)]
    if not logs:
        raise InputError("the folder holds no healthy log of a collective", file=folder, key="logs")
    felt = {constant: _feeling(constant, logs, catalog) for constant in CONSTANTS}
    for operator in sorted({operator_of(log) for log in logs}):
        yield _without(operator, logs, felt, catalog)


def _without(
    operator: str, logs: Sequence[NcclLog], felt: Mapping[Constant, frozenset[str]], catalog: Catalog
) -> LeftOut:
    mine = [log for log in logs if operator_of(log) == operator]
    names = {log.file for log in mine}
    others = [log for log in logs if log.file not in names]
    concerned = [constant for constant in CONSTANTS if felt[constant] & names]
    free = [constant for constant in concerned if felt[constant] - names]
    known = MEASURED
    for constant in concerned:
        known = constant.put(known, constant.prior)
    for constant in free * PASSES:
        known = _fit(constant, known, [log for log in others if log.file in felt[constant]], catalog)
    fitted = {constant.label: constant.get(known) for constant in free}
    kept = tuple(constant.label for constant in concerned if constant not in free)
    rows, before = _rows(mine, catalog, known), _rows(mine, catalog, MEASURED)
    return LeftOut(operator, len(mine), tuple(rows), fitted, kept, tuple(before))


def _fit(constant: Constant, known: Constants, logs: Sequence[NcclLog], catalog: Catalog) -> Constants:
    """The constants with that value of the grid which has the least error; every operator weighs the same."""

    def miss(tried: Constants) -> float:
        by_operator: dict[str, list[float]] = {}
        for row in _rows(logs, catalog, tried):
            if row.predicted_us and row.measured_us:
                off = min(abs(float(np.log(row.predicted_us / row.measured_us))), LARGEST)
                by_operator.setdefault(row.operator, []).append(off)
        return float(np.mean([np.mean(off) for off in by_operator.values()]))

    return min((constant.put(known, value) for value in constant.grid()), key=miss)


def _feeling(constant: Constant, logs: Sequence[NcclLog], catalog: Catalog) -> frozenset[str]:
    """Logs whose predictions move with a constant."""

    def times(known: Constants) -> dict[str, list[float | None]]:
        return {log.file: [row.predicted_us for row in _rows([log], catalog, known)] for log in logs}

    first, *ends = (
        times(known) for known in (MEASURED, *(constant.put(MEASURED, end) for end in (constant.low, constant.high)))
    )
    return frozenset(log.file for log in logs if any(end[log.file] != first[log.file] for end in ends))


def _rows(logs: Sequence[NcclLog], catalog: Catalog, known: Constants) -> list[CollectiveResult]:
    """Healthy rows that are predicted."""
    rows = [row for log in logs for row in validate_log(log, catalog, known)]
    return [row for row in rows if row.error is not None and not row.odd]
