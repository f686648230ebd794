"""Collective logs predicted with constants that were fitted without their operator.

Every constant that was read off logs is listed here with what it would be had nobody measured it: the library's own
constant, or nothing. To judge an operator, its logs are taken out; each constant that they feel is fitted to the other
operators' logs, one constant after another and twice, from these priors. One that no other operator's logs feel keeps
its prior.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective import chunks, peers, timing
from railyard.errors import InputError
from railyard_validation.collectives import launch, machine, nccl_log
from railyard_validation.collectives.compare import validate_log
from railyard_validation.collectives.health import listed_as_odd, number_of, operator_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import ModuleType

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
        module: Where it stands.
        name: Its name there.
        prior: What it would be had nobody measured it.
        low: Least value that is tried.
        high: Largest value that is tried.
        key: Entry of it, where it is a table.
    """

    module: ModuleType
    name: str
    prior: float
    low: float
    high: float
    key: str = ""

    @property
    def label(self) -> str:
        """Name and entry."""
        return f"{self.name}[{self.key}]" if self.key else self.name

    def get(self) -> float:
        """Its value now."""
        value = getattr(self.module, self.name)
        return float(value[self.key] if self.key else value)

    def set(self, value: float) -> None:
        """Changes it wherever it has been imported."""
        if self.key:
            getattr(self.module, self.name)[self.key] = value
            return
        for module in [module for name, module in sys.modules.items() if name.startswith("railyard")]:
            if self.name in vars(module):
                setattr(module, self.name, value)

    def grid(self) -> list[float]:
        """Values that are tried: even steps from zero, even factors otherwise; the prior too."""
        spread = np.linspace if self.low <= 0 else np.geomspace
        return sorted({self.prior, *(float(value) for value in spread(self.low, self.high, STEPS))})


KIB, US = 1 << 10, 1_000_000
CONSTANTS = (
    Constant(launch, "HOST_GPU_US", 0.0, 0.0, 9.0),
    Constant(launch, "HOST_CHANNEL_US", 0.0, 0.0, 0.6),
    Constant(launch, "HOST_PEER_US", 0.0, 0.0, 1.8),
    Constant(launch, "START_US", 0.0, 0.0, 60.0),
    Constant(launch, "PYTHON_HOST_US", 0.0, 0.0, 78.0),
    Constant(launch, "PYTHON_EVENTS_US", 0.0, 0.0, 36.0),
    Constant(launch, "PYTHON_BARRIER_US", 0.0, 0.0, 60.0),
    Constant(machine, "CLOUD_STACK_PS", 0.0, 0.0, 24.0 * US, "aws"),
    Constant(machine, "CLOUD_STACK_PS", 0.0, 0.0, 36.0 * US, "google"),
    Constant(machine, "VIRTUAL_RDMA_PS", 0.0, 0.0, 36.0 * US, "google"),
    Constant(machine, "TCPX_EFFICIENCY", 1.0, 0.4, 1.0),
    Constant(machine, "TCPX_IDLE_US", 0.0, 0.0, 1500.0),
    Constant(machine, "PUT_STACK_PS", 0.0, 0.0, 18.0 * US),
    Constant(machine, "PUT_START_US", 0.0, 0.0, 90.0),
    Constant(timing, "SOFTWARE_US", 1.75, 1.0, 12.0, "ll"),
    Constant(timing, "SOFTWARE_US", 5.25, 2.0, 18.0, "ll128"),
    Constant(timing, "SOFTWARE_US", 10.75, 4.0, 24.0, "simple"),
    Constant(timing, "HOP_FACTOR", 1.0, 0.7, 3.0, "ampere"),
    Constant(timing, "HOP_FACTOR", 1.0, 0.7, 3.0, "blackwell"),
    Constant(timing, "SIMPLE_HOP_FACTOR", 1.0, 0.7, 3.0, "ampere"),
    Constant(timing, "GATHER_SHARE", 1.0, 0.85, 1.0),
    Constant(timing, "PEER_US", 0.0, 0.0, 1.0),
    Constant(timing, "RCCL_PEER_US", 0.0, 0.0, 2.4),
    Constant(timing, "PEER_BASE_US", 6.6, 4.0, 16.0),
    Constant(timing, "PEER_SHARE", 1.0, 0.8, 1.0),
    Constant(timing, "SWITCH_SHARE", 0.85, 0.7, 1.0),
    Constant(timing, "SWITCH_MANY_RANKS", 1.0, 0.7, 1.0),
    Constant(timing, "SHARP_SHARE", 1.0, 0.35, 1.0),
    Constant(timing, "CHAIN_CHUNK_BYTES", 512.0 * KIB, 16.0 * KIB, 512.0 * KIB),
    Constant(timing, "MESH_SHARE", 1.0, 0.8, 1.0),
    Constant(timing, "MESH_PEER_SHARE", 1.0, 0.7, 1.0),
    Constant(chunks, "SWITCH_SYNC_US", 0.0, 0.0, 1.5, "hopper"),
    Constant(chunks, "SWITCH_SYNC_US", 0.0, 0.0, 2.0, "blackwell"),
    Constant(chunks, "SYNC_BEYOND", 1.0, 0.0, 1.0),
    Constant(peers, "CHANNEL_GBS", 20.0, 10.0, 40.0),
    Constant(peers, "LL_CHANNEL_GBS", 10.0, 2.5, 20.0),
    Constant(peers, "LL_BYTES", 64.0 * KIB, 16.0 * KIB, 2048.0 * KIB),
    Constant(peers, "FILL_BYTES", 512.0 * KIB, 32.0 * KIB, 512.0 * KIB),
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
    logs = [log for log in logs if _rows([log], catalog)]
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
    before = _rows(mine, catalog)
    with _restored(concerned):
        for constant in concerned:
            constant.set(constant.prior)
        for _ in range(PASSES):
            for constant in free:
                _fit(constant, [log for log in others if log.file in felt[constant]], catalog)
        rows = _rows(mine, catalog)
        fitted = {constant.label: constant.get() for constant in free}
    kept = tuple(constant.label for constant in concerned if constant not in free)
    return LeftOut(operator, len(mine), tuple(rows), fitted, kept, tuple(before))


def _fit(constant: Constant, logs: Sequence[NcclLog], catalog: Catalog) -> None:
    """The value of the grid with the least error; every operator weighs the same."""

    def miss(value: float) -> float:
        constant.set(value)
        by_operator: dict[str, list[float]] = {}
        for row in _rows(logs, catalog):
            if row.predicted_us and row.measured_us:
                off = min(abs(float(np.log(row.predicted_us / row.measured_us))), LARGEST)
                by_operator.setdefault(row.operator, []).append(off)
        return float(np.mean([np.mean(off) for off in by_operator.values()]))

    constant.set(min(constant.grid(), key=miss))


def _feeling(constant: Constant, logs: Sequence[NcclLog], catalog: Catalog) -> frozenset[str]:
    """Logs whose predictions move with a constant."""
    with _restored([constant]):
        times = []
        for value in (constant.get(), constant.low, constant.high):
            constant.set(value)
            times.append({log.file: [row.predicted_us for row in _rows([log], catalog)] for log in logs})
    return frozenset(log.file for log in logs if any(one[log.file] != times[0][log.file] for one in times[1:]))


def _rows(logs: Sequence[NcclLog], catalog: Catalog) -> list[CollectiveResult]:
    """Healthy rows that are predicted."""
    rows = [row for log in logs for row in validate_log(log, catalog)]
    return [row for row in rows if row.error is not None and not row.odd]


@contextmanager
def _restored(constants: Sequence[Constant]) -> Iterator[None]:
    """Sets constants back to what they were."""
    were = [(constant, constant.get()) for constant in constants]
    try:
        yield
    finally:
        for constant, value in were:
            constant.set(value)
