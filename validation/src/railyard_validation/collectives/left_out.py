"""Collective logs predicted with constants that were fitted without them: without their operator, or what came later.

Every constant that was read off logs is listed here with what it would be had not measured, and how far that may
be off: what a library's own source states of it, another's measurement, or a guess, and each says which. The constants
minimise the miss of the logs less that of the priors (`robust`). To judge an operator, its logs are taken out and the
constants are fitted anew to the other operators' logs, from these priors. One that no other operator's logs feel keeps
its prior. To judge a half year, the constants are fitted to the logs that were published before it; the mechanisms were
written with all logs known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.calibrate.nccl import log as nccl_log
from railyard.ask.calibrate.nccl.constants import CONSTANTS as MEASURED
from railyard.ask.calibrate.nccl.constants import FITTED, STEP, LaunchConstants, constants_of
from railyard.ask.calibrate.nccl.rows import chosen_by_plugin, listed_as_odd, number_of, operator_of, validate_log
from railyard.collective import model_error
from railyard.kit.errors import InputError
from railyard_validation.bands import Miss, inside
from railyard_validation.bands import bands as error_bands
from railyard_validation.collectives.compare import spread
from railyard_validation.csv_rows import Column, checked, read_rows
from railyard_validation.robust import Priors, Rows, minimise
from railyard_validation.training.by_time import CUTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.ask.calibrate.nccl.log import NcclLog
    from railyard.ask.calibrate.nccl.rows import CollectiveResult
    from railyard.catalog import Catalog
    from railyard_validation.bands import Later
    from railyard_validation.csv_rows import Cells

    F = NDArray[np.float64]

COLUMNS = ("without", "constant", "value")
_CELLS = {"constant": Column(words=tuple(one.name for one in FITTED)), "value": Column(low=1e-9)}
LEAST_OPERATORS = 2
"""A band of fewer operators would say how alike one's machines are."""

SIZES = (
    (model_error.MIB, model_error.BELOW),
    (64 * model_error.MIB, "1 to 64 MiB"),
    (math.inf, "from 64 MiB"),
)
"""Ends and names of the families of bands."""

ROWS_OF_LOG = 10
"""A log's sizes and halves share its machine and its day: together they weigh as so many rows at most."""

MISS = Rows(spread=0.1, huber=2.0)
ITERATIONS = 40
PRECISION = 1e-4


PRIORS = Priors(
    at=np.log([constant.prior for constant in FITTED]),
    spread=np.array([constant.spread for constant in FITTED]),
    high=np.log([constant.most for constant in FITTED]),
)


@dataclass(frozen=True)
class LeftOut:
    """One operator or half year, judged without its logs.

    Attributes:
        without: The operator, or the month that begins the half year.
        logs: Its healthy logs that hold collectives.
        rows: Its rows under constants fitted without them.
        before: Its rows under the constants as they stand.
    """

    without: str
    logs: int
    rows: tuple[CollectiveResult, ...]
    before: tuple[CollectiveResult, ...]


@dataclass(frozen=True)
class FittedWithout:
    """Constants fitted to some of the logs.

    Attributes:
        without: Operator whose logs were left out, or month from which on all were; `none` where none was.
        x: Their logarithms, in the order of `FITTED`.
    """

    without: str
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
        for index, constant in enumerate(FITTED):
            ends = (constant.get(MEASURED) * factor for factor in (0.5, 1.5))
            others = (healthy_rows(log, self.catalog, constant.put(MEASURED, end)) for end in ends)
            if any(_times(rows) != _times(stands) for rows in others):
                moved.append(index)
        return tuple(moved)

    @property
    def operators(self) -> list[str]:
        """Whose logs these are."""
        return sorted({operator_of(log) for log in self.logs})

    @property
    def cuts(self) -> list[str]:
        """Months that begin the half years in which logs were published."""
        return [cut for cut in CUTS if any(_judged(log, cut) for log in self.logs)]

    def fit_without(self, without: str) -> FittedWithout:
        """Constants fitted to the other logs; the priors where there are none."""
        others = [log for log in self.logs if not _unseen(log, without)]
        return FittedWithout(without, self.fit(others) if others else PRIORS.at)

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


def _unseen(log: NcclLog, without: str) -> bool:
    """Whether a log is left out of a fit."""
    return log.published >= without if without in CUTS else operator_of(log) == without


def _judged(log: NcclLog, without: str) -> bool:
    """Whether a log is what a fit is judged by: all of an operator, the first half year of what came later."""
    later = next((cut for cut in CUTS if cut > without), "9999-99")
    return _unseen(log, without) and (without not in CUTS or log.published < later)


def judge(known: Logs, fit: FittedWithout) -> LeftOut:
    """The rows of an operator or half year under constants that were fitted without them."""
    mine = [log for log in known.logs if _judged(log, fit.without)]
    stands = np.log([constant.get(MEASURED) for constant in FITTED])
    return LeftOut(
        fit.without,
        len(mine),
        tuple(row for log in mine for row in known.rows(log, fit.x)),
        tuple(row for log in mine for row in known.rows(log, stands)),
    )


def kept(known: Logs, operator: str) -> tuple[str, ...]:
    """Names of the constants that an operator's logs feel and no others': without them they keep their priors."""
    mine = {index for log in known.logs if operator_of(log) == operator for index in known.felt(log)}
    others = {index for log in known.logs if operator_of(log) != operator for index in known.felt(log)}
    return tuple(FITTED[index].name for index in sorted(mine - others))


def errors(rows: Sequence[CollectiveResult]) -> str:
    """Median and 90th percentile by class of size, in words."""
    parts = []
    for what, name in (("time", "below 1 MiB"), ("busbw", "from 1 MiB")):
        found = spread([row.error for row in rows if row.error is not None and row.error_of == what])
        if found.median_abs_error is not None and found.p90_abs_error is not None:
            parts.append(f"{name} {found.median_abs_error:.1%} ({found.p90_abs_error:.0%})")
    return ", ".join(parts)


def bands(judged: Sequence[LeftOut]) -> dict[tuple[str, str], model_error.ModelErrorBand]:
    """Bands of measured over predicted time, by kind and class of size, by the law of `railyard_validation.bands`."""
    rows: dict[tuple[str, str], list[tuple[LeftOut, CollectiveResult]]] = {}
    for one in judged:
        for row in one.rows:
            size = model_error.BELOW if row.bytes < model_error.MIB else model_error.FROM
            for kind in (row.collective, model_error.ANY):
                rows.setdefault((kind, size), []).append((one, row))
    found = {}
    for (kind, size), those in sorted(rows.items()):
        (band,) = error_bands(_miss(one, row, kind, size) for one, row in those)
        some = [row for _, row in those]
        operators = len({row.operator for row in some})
        if operators >= LEAST_OPERATORS:
            found[kind, size] = model_error.ModelErrorBand(
                round(1 + band.low, 3),
                round(1 + band.high, 3),
                len(some),
                operators,
                max(row.ranks for row in some),
                max(row.bytes for row in some),
                frozenset(row.algorithm for row in some),
                frozenset(row.architecture for row in some),
            )
    return found


def misses(judged: Sequence[LeftOut]) -> Iterator[Miss]:
    """The misses of half years by class of size."""
    for one in judged:
        for row in one.rows:
            yield _miss(one, row, "collective", next(name for most, name in SIZES if row.bytes < most))


def _miss(one: LeftOut, row: CollectiveResult, question: str, family: str) -> Miss:
    """The miss of one row; what an operator published in a half year is a source."""
    group = f"{row.log}|{row.collective}"
    return Miss(question, family, f"{row.operator}, {one.without}", group, -float(_misses([row])[0]), "time")


def later(judged: Sequence[LeftOut]) -> list[Later]:
    """Half years in the bands that a prediction would have had, read off the half years before."""
    found = []
    for number, one in enumerate(judged):
        known = bands(judged[:number])
        if (model_error.ANY, model_error.BELOW) in known and (model_error.ANY, model_error.FROM) in known:
            found.append(inside(one.without, [_in_band(row, known) for row in one.rows]))
    return found


def _in_band(
    row: CollectiveResult, known: Mapping[tuple[str, str], model_error.ModelErrorBand]
) -> tuple[float, float, float]:
    band = model_error.band_of(
        row.collective,
        row.bytes,
        ranks=row.ranks,
        algorithm=row.algorithm,
        architecture=row.architecture,
        known=known,
    )
    return -float(_misses([row])[0]), band.low - 1.0, band.high - 1.0


def write_bands(found: Mapping[tuple[str, str], model_error.ModelErrorBand], path: Path) -> None:
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
        values = zip(FITTED, np.exp(fit.x), strict=True)
        lines += [f"{fit.without},{constant.name},{value:.5g}" for constant, value in values]
    _replace(lines, path)


def _replace(lines: Sequence[str], path: Path) -> None:
    begun = path.with_suffix(".part")
    begun.write_text("\n".join(lines) + "\n", "utf-8")
    begun.replace(path)


def read(path: Path) -> list[FittedWithout]:
    """The fitted constants that `write` wrote.

    Raises:
        InputError: The file lacks a column or a constant of a fit, or a cell holds what its column may not.
    """
    found: dict[str, dict[str, float]] = {}
    for without, name, value in read_rows(path, COLUMNS, _fitted):
        if name in found.setdefault(without, {}):
            raise InputError(f"{name} without {without} appears twice", file=path, key=name)
        found[without][name] = value
    fits = []
    for without, values in found.items():
        lacking = [constant.name for constant in FITTED if constant.name not in values]
        if lacking:
            raise InputError(f"a constant of the fit without {without} is missing", file=path, key=lacking[0])
        fits.append(FittedWithout(without, np.log([values[constant.name] for constant in FITTED])))
    return fits


def _fitted(cells: Cells, line: int, header: list[str]) -> tuple[str, str, float]:
    text = checked(cells, line, header, _CELLS)
    absent = [name for name in COLUMNS if name not in text]
    if absent:
        raise InputError("the cell is empty", line=line, key=absent[0])
    return text["without"], text["constant"], float(text["value"])


def healthy_rows(log: NcclLog, catalog: Catalog, known: LaunchConstants) -> list[CollectiveResult]:
    """Rows of a log that are predicted, where nothing says that the machine was not healthy."""
    return [row for row in validate_log(log, catalog, known) if row.error is not None and not row.odd]


def _times(rows: Sequence[CollectiveResult]) -> list[float | None]:
    return [row.predicted_us for row in rows]


def _misses(rows: Sequence[CollectiveResult]) -> F:
    predicted, measured = (np.array([getattr(row, name) for row in rows]) for name in ("predicted_us", "measured_us"))
    return np.asarray(np.log(predicted / measured), np.float64)
