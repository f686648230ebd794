"""Collective logs predicted with constants that were fitted without their system.

Every constant that was read off logs is listed here with what it would be had nobody measured it, and how far that may
be off: what a library's own source states of it, another's measurement, or a guess, and each says which. The constants
minimise the miss of the logs less that of the priors (`robust`). To judge an operator, its logs are taken out and the
constants are fitted anew to the other operators' logs, from these priors. One that no other operator's logs feel keeps
its prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from railyard.calibrate.nccl import log as nccl_log
from railyard.calibrate.nccl.constants import CONSTANTS as MEASURED
from railyard.calibrate.nccl.constants import Constants
from railyard.calibrate.nccl.health import chosen_by_plugin, listed_as_odd, number_of, operator_of
from railyard.calibrate.nccl.priors import CONSTANTS, STEP, constants_of
from railyard.calibrate.nccl.rows import validate_log
from railyard.collective import model_error
from railyard.errors import InputError
from railyard_validation.collectives.compare import spread
from railyard_validation.csv_rows import Column, checked, read_rows
from railyard_validation.robust import Priors, Rows, minimise

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.calibrate.nccl.log import NcclLog
    from railyard.calibrate.nccl.rows import CollectiveResult
    from railyard.catalog import Catalog
    from railyard_validation.csv_rows import Cells

    F = NDArray[np.float64]

COLUMNS = ("operator", "constant", "value")
_CELLS = {"constant": Column(words=tuple(one.name for one in CONSTANTS)), "value": Column(low=1e-9)}
LEAST_OPERATORS = 2
"""A band of fewer operators would say how alike one's machines are."""

ROWS_OF_LOG = 10
"""A log's sizes and halves share its machine and its day: together they weigh as so many rows at most."""

MISS = Rows(spread=0.1, huber=2.0)
ITERATIONS = 40
PRECISION = 1e-4


PRIORS = Priors(
    at=np.log([constant.prior for constant in CONSTANTS]),
    spread=np.array([constant.spread for constant in CONSTANTS]),
    high=np.log([constant.most for constant in CONSTANTS]),
)


@dataclass(frozen=True)
class LeftOut:
    """One operator, judged without its logs.

    Attributes:
        operator: Who.
        logs: Its healthy logs that hold collectives.
        rows: Its rows under constants fitted without them.
        before: Its rows under the constants as they stand.
    """

    operator: str
    logs: int
    rows: tuple[CollectiveResult, ...]
    before: tuple[CollectiveResult, ...]


@dataclass(frozen=True)
class FittedWithout:
    """Constants fitted to all logs but one operator's.

    Attributes:
        operator: Whose logs were left out; `none` for nobody's.
        x: Their logarithms, in the order of `CONSTANTS`.
    """

    operator: str
    x: F


class Logs:
    """Healthy logs, and what constants make of them; what a constant does not touch is predicted once.

    Attributes:
        logs: Those of a folder that hold collectives.
    """

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        """Reads a folder.

        Raises:
            InputError: It holds no healthy log of a collective.
        """
        listed = listed_as_odd(folder) if folder.is_dir() else frozenset()
        paths = sorted(path for path in folder.glob("*") if path.suffix in (".txt", ".log"))
        logs = [log for log in map(nccl_log.read, paths) if number_of(log) not in listed]
        self.logs = [log for log in logs if healthy_rows(log, catalog, MEASURED)]
        if not self.logs:
            raise InputError("the folder holds no healthy log of a collective", file=folder, key="logs")
        self.catalog = catalog
        self._seen: dict[tuple[str, tuple[float, ...]], list[CollectiveResult]] = {}
        self._felt: dict[str, tuple[int, ...]] = {}

    def _feels(self, log: NcclLog) -> tuple[int, ...]:
        """Constants with which a log's predictions move."""
        stands = healthy_rows(log, self.catalog, MEASURED)
        moved = []
        for index, constant in enumerate(CONSTANTS):
            ends = (constant.get(MEASURED) * factor for factor in (0.5, 1.5))
            others = (healthy_rows(log, self.catalog, constant.put(MEASURED, end)) for end in ends)
            if any(_times(rows) != _times(stands) for rows in others):
                moved.append(index)
        return tuple(moved)

    @property
    def operators(self) -> list[str]:
        """Whose logs these are."""
        return sorted({operator_of(log) for log in self.logs})

    def fit_without(self, operator: str) -> FittedWithout:
        """Constants fitted to the other operators' logs; the priors where there are none."""
        others = [log for log in self.logs if operator_of(log) != operator]
        return FittedWithout(operator, self.fit(others) if others else PRIORS.at)

    def felt(self, log: NcclLog) -> tuple[int, ...]:
        """Indices of the constants with which a log's predictions move; found once, in a fifth of a second."""
        if log.file not in self._felt:
            self._felt[log.file] = self._feels(log)
        return self._felt[log.file]

    def rows(self, log: NcclLog, x: F) -> list[CollectiveResult]:
        """Rows of a log that are predicted, under constants of these logarithms."""
        key = (log.file, tuple(float(x[index]) for index in self._felt.get(log.file, range(len(x)))))
        if key not in self._seen:
            self._seen[key] = healthy_rows(log, self.catalog, constants_of(x))
        return self._seen[key]

    def misses(self, logs: Sequence[NcclLog], x: F) -> F:
        """Logarithm of predicted over measured, [row]."""
        return np.concatenate([_misses(self.rows(log, x)) for log in logs])

    def slopes(self, logs: Sequence[NcclLog], x: F) -> F:
        """Derivatives of the misses by the logarithms of the constants, [row, constant]."""
        blocks = []
        for log in logs:
            stands = _misses(self.rows(log, x))
            block = np.zeros((len(stands), len(x)))
            for index in self.felt(log):
                moved = x.copy()
                moved[index] -= STEP
                block[:, index] = (stands - _misses(self.rows(log, moved))) / STEP
            blocks.append(block)
        return np.concatenate(blocks)

    def fit(self, logs: Sequence[NcclLog]) -> F:
        """Logarithms of the constants that minimise the misses of some logs.

        Where a plugin chose the algorithms, others ran than those that are predicted: that says nothing of constants.
        """
        logs = [log for log in logs if not chosen_by_plugin(log)]
        for log in logs:
            self.felt(log)
        counts = [len(self.rows(log, PRIORS.at)) for log in logs]
        weight = np.concatenate([np.full(count, min(1.0, ROWS_OF_LOG / count)) for count in counts])
        return minimise(
            partial(self.misses, logs),
            partial(self.slopes, logs),
            PRIORS,
            replace(MISS, weight=weight),
            iterations=ITERATIONS,
            precision=PRECISION,
        )


def left_out(known: Logs) -> Iterator[LeftOut]:
    """Every operator of some logs, judged without its own."""
    for operator in known.operators:
        yield judge(known, known.fit_without(operator))


def judge(known: Logs, fit: FittedWithout) -> LeftOut:
    """An operator's rows under constants that were fitted without them."""
    mine = [log for log in known.logs if operator_of(log) == fit.operator]
    stands = np.log([constant.get(MEASURED) for constant in CONSTANTS])
    return LeftOut(
        fit.operator,
        len(mine),
        tuple(row for log in mine for row in known.rows(log, fit.x)),
        tuple(row for log in mine for row in known.rows(log, stands)),
    )


def kept(known: Logs, operator: str) -> tuple[str, ...]:
    """Names of the constants that an operator's logs feel and no others': without them they keep their priors."""
    mine = {index for log in known.logs if operator_of(log) == operator for index in known.felt(log)}
    others = {index for log in known.logs if operator_of(log) != operator for index in known.felt(log)}
    return tuple(CONSTANTS[index].name for index in sorted(mine - others))


def errors(rows: Sequence[CollectiveResult]) -> str:
    """Median and 90th percentile by class of size, in words."""
    parts = []
    for what, name in (("time", "below 1 MiB"), ("busbw", "from 1 MiB")):
        found = spread([row.error for row in rows if row.error is not None and row.error_of == what])
        if found.median_abs_error is not None and found.p90_abs_error is not None:
            parts.append(f"{name} {found.median_abs_error:.1%} ({found.p90_abs_error:.0%})")
    return ", ".join(parts)


def bands(judged: Sequence[LeftOut]) -> dict[tuple[str, str], model_error.Band]:
    """Quantiles of measured over predicted time without the operator, by kind of collective and class of size."""
    rows: dict[tuple[str, str], list[CollectiveResult]] = {}
    for one in judged:
        for row in one.rows:
            size = model_error.BELOW if row.bytes < model_error.MIB else model_error.FROM
            for kind in (row.collective, model_error.ANY):
                rows.setdefault((kind, size), []).append(row)
    found = {}
    for key, those in sorted(rows.items()):
        operators = len({row.operator for row in those})
        if operators >= LEAST_OPERATORS:
            low, high = np.quantile(np.exp(-_misses(those)), (model_error.LOW, model_error.HIGH))
            found[key] = model_error.Band(
                round(float(low), 3),
                round(float(high), 3),
                len(those),
                operators,
                max(row.ranks for row in those),
                max(row.bytes for row in those),
                frozenset(row.algorithm for row in those),
                frozenset(row.architecture for row in those),
            )
    return found


def write_bands(found: Mapping[tuple[str, str], model_error.Band], path: Path) -> None:
    """Writes the table that `railyard.collective.model_error` reads."""
    lines = ["kind,size,low,high,rows,operators,ranks,largest_bytes,algorithms,architectures"]
    lines += [
        f"{kind},{size},{b.low},{b.high},{b.rows},{b.operators},{b.ranks},{b.largest_bytes},"
        f"{' '.join(sorted(b.algorithms))},{' '.join(sorted(b.architectures))}"
        for (kind, size), b in found.items()
    ]
    _replace(lines, path)


def write(fits: Sequence[FittedWithout], path: Path) -> None:
    """Writes fitted constants, one a line, in place of what the file held."""
    lines = [",".join(COLUMNS)]
    for fit in fits:
        values = zip(CONSTANTS, np.exp(fit.x), strict=True)
        lines += [f"{fit.operator},{constant.name},{value:.5g}" for constant, value in values]
    _replace(lines, path)


def _replace(lines: Sequence[str], path: Path) -> None:
    begun = path.with_suffix(".part")
    begun.write_text("\n".join(lines) + "\n", "utf-8")
    begun.replace(path)


def read(path: Path) -> list[FittedWithout]:
    """The fitted constants that `write` wrote.

    Raises:
        InputError: The file lacks a column or a constant of an operator, or a cell holds what its column may not.
    """
    found: dict[str, dict[str, float]] = {}
    for operator, name, value in read_rows(path, COLUMNS, _fitted):
        if name in found.setdefault(operator, {}):
            raise InputError(f"{name} of {operator} stands twice", file=path, key=name)
        found[operator][name] = value
    fits = []
    for operator, values in found.items():
        lacking = [constant.name for constant in CONSTANTS if constant.name not in values]
        if lacking:
            raise InputError(f"a constant of {operator} is missing", file=path, key=lacking[0])
        fits.append(FittedWithout(operator, np.log([values[constant.name] for constant in CONSTANTS])))
    return fits


def _fitted(cells: Cells, line: int, header: list[str]) -> tuple[str, str, float]:
    text = checked(cells, line, header, _CELLS)
    absent = [name for name in COLUMNS if name not in text]
    if absent:
        raise InputError("the cell is empty", line=line, key=absent[0])
    return text["operator"], text["constant"], float(text["value"])


def healthy_rows(log: NcclLog, catalog: Catalog, known: Constants) -> list[CollectiveResult]:
    """Rows of a log that are predicted, where nothing says that the machine was not healthy."""
    return [row for row in validate_log(log, catalog, known) if row.error is not None and not row.odd]


def _times(rows: Sequence[CollectiveResult]) -> list[float | None]:
    return [row.predicted_us for row in rows]


def _misses(rows: Sequence[CollectiveResult]) -> F:
    predicted, measured = (np.array([getattr(row, name) for row in rows]) for name in ("predicted_us", "measured_us"))
    return np.asarray(np.log(predicted / measured), np.float64)
