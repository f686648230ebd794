"""Constants of collective libraries and of their launch from a user's own log of nccl-tests, with how sure they are.

The sizes of a log share its machine and its day: however many they are, they weigh as `ROWS_OF_LOG` rows.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.calibrate.measurements import (
    SETTLED,
    Calibrated,
    MeasurementKind,
    Prior,
    kinds,
    moved_constants,
    posterior,
    row_fit,
)
from railyard.ask.calibrate.nccl.constants import CONSTANTS as SHIPPED
from railyard.ask.calibrate.nccl.constants import FITTED, STEP, constants_of
from railyard.ask.calibrate.nccl.log import collective_of, columns_of, parse
from railyard.ask.calibrate.nccl.rows import validate_log
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.ask.calibrate.measurements import MeasurementFile, Posterior
    from railyard.ask.calibrate.nccl.log import NcclLog
    from railyard.ask.calibrate.nccl.rows import CollectiveResult
    from railyard.catalog import Catalog
    from railyard.measure.result.measured import ConstantFit

    F = NDArray[np.float64]


SPREAD = 0.1
"""What the model leaves of a row, as where the constants that ship are fitted."""
ROWS_OF_LOG = 10
SECTION = "collectives"
LIBRARY = "library."
_TEST = re.compile(r"\b(\w+)_perf\b")


class Predicted:
    """Times of a log under constants; placements of one size are one row.

    Attributes:
        rows: One of each size of each table, in the order of lines.
        measured_us: Geometric mean over the placements of each, [row].
        felt: Indices of the constants of `CONSTANTS` with which a prediction moves.
    """

    def __init__(self, log: NcclLog, catalog: Catalog) -> None:
        """Predicts a log with the constants that ship.

        Raises:
            InputError: It has no row that can be predicted; says why the first cannot.
        """
        self.log, self._catalog = log, catalog
        known = validate_log(log, catalog)
        usable = [row for row in known if row.status == "ok" and row.measured_us and row.predicted_us]
        if not usable:
            reason = known[0].reason if known else "no table of nccl-tests in it"
            raise InputError(f"no row of the log can be predicted: {reason}", file=log.path, line=known[0].line)
        groups: dict[tuple[str, str, int], list[CollectiveResult]] = {}
        for row in usable:
            groups.setdefault((row.block, row.collective, row.bytes), []).append(row)
        self._groups = tuple(groups)
        self.rows = [rows[0] for rows in groups.values()]
        self.skipped = tuple(f"line {row.line}: {row.reason}" for row in known if row.bad)
        self.measured_us: F = np.exp([_mean_log([row.measured_us for row in rows]) for rows in groups.values()])
        self._seen: dict[tuple[float, ...], F] = {}
        at = shipped()
        self.felt = tuple(index for index in range(len(at)) if self._moves(at, index))

    def _moves(self, at: F, index: int) -> bool:
        ends = (at + math.log(factor) * np.eye(len(at))[index] for factor in (0.5, 1.5))
        return any(bool(np.any(self.times_us(end) != self.times_us(at))) for end in ends)

    def times_us(self, x: F) -> F:
        """Predicted times, [row], under constants of these logarithms, in the order of `CONSTANTS`."""
        key = tuple(x.tolist())
        if key not in self._seen:
            found = validate_log(self.log, self._catalog, constants_of(x))
            times = {(row.block, row.collective, row.bytes): row.predicted_us for row in found if row.predicted_us}
            self._seen[key] = np.array([times[group] for group in self._groups], np.float64)
        return self._seen[key]

    def fit(self, start: F, rows: Sequence[int], *, leave_out: bool) -> tuple[F, Posterior]:
        """Logarithms of all constants that some rows leave most likely, and what is known of those that they feel."""
        felt, kept = list(self.felt), list(rows)

        def misses(moved: F) -> F:
            return np.asarray(np.log(self.times_us(placed(start, felt, moved)) / self.measured_us)[kept], np.float64)

        prior = Prior(
            at=start[felt],
            width=np.array([FITTED[index].spread for index in felt]),
            high=np.maximum(np.log([FITTED[index].most for index in felt]), start[felt]),
        )
        weight = np.full(len(kept), min(1.0, ROWS_OF_LOG / len(kept)))
        groups = None if leave_out else ["one"] * len(kept)
        found = posterior(misses, prior, SPREAD, weight=weight, groups=groups, step=STEP)
        return placed(start, felt, found.at), found


def shipped() -> F:
    """Logarithms of the constants that ship, in the order of `CONSTANTS`."""
    return np.log([constant.get(SHIPPED) for constant in FITTED])


def placed(start: F, felt: Sequence[int], moved: F) -> F:
    """The logarithms, with others in some places."""
    found = start.copy()
    found[list(felt)] = moved
    return found


def calibrate(source: MeasurementFile, catalog: Catalog) -> Calibrated:
    """Constants of collectives from one log.

    Raises:
        InputError: The log does not say which collective or accelerator it shows, or no row can be predicted.
    """
    log = named(source)
    known = Predicted(log, catalog)
    if not known.felt:
        raise InputError("no constant affects any row of this log", file=source.path)
    start = shipped()
    at, found = known.fit(start, range(len(known.rows)), leave_out=True)
    names = [FITTED[index].name for index in known.felt]
    of = ["library" if name.startswith(LIBRARY) else "launch" for name in names]
    short, before = [name.removeprefix(LIBRARY) for name in names], np.exp(start[list(known.felt)])
    constants = [one for one in moved_constants(of, short, before, found) if one.settled >= SETTLED]
    columns = (known.measured_us, known.times_us(start), known.times_us(at), known.measured_us * np.exp(found.left_out))
    judged = [
        row_fit(row.line, f"{row.collective} {row.bytes} B", [float(column[number]) for column in columns])
        for number, row in enumerate(known.rows)
    ]
    return Calibrated(
        kind="collectives",
        unit="us",
        constants=tuple(constants),
        rows=tuple(judged),
        written=written(constants, source),
        use="`collectives: {constants: FILE}` in a scenario",
        skipped=known.skipped,
    )


def named(source: MeasurementFile) -> NcclLog:
    """The log of a file; its collective is that of its header, of the program that it names, or of its file's name.

    Raises:
        InputError: None of them says it.
    """
    log = parse(source.text, file=source.path.stem, path=str(source.path))
    said = log.headers.get("collective") or log.headers.get("test", "")
    if any(collective_of(part) for part in said.split("+")) or any(block.collective for block in log.blocks):
        return log
    words = [*_TEST.findall(source.text), *re.split(r"[^a-z]+", source.path.stem.lower())]
    words += [first + second for first, second in pairwise(words)]
    found = next((word for word in words if collective_of(word)), None)
    if found is None:
        hint = "write a line `# collective: all_reduce` on top"
        raise InputError("the log does not say which collective it times", file=source.path, line=1, hint=hint)
    log.headers["collective"] = found
    return log


def written(constants: Sequence[ConstantFit], source: MeasurementFile) -> str:
    """The file that `collectives: {constants: FILE}` takes; what is no library's stands there as remarks."""
    lines = [f"# Written by `railyard calibrate runs` from {source.path.name}; +- is one standard deviation."]
    lines += ["", f"[{SECTION}]"]
    for one in constants:
        spread = 50.0 * (one.high - one.low) / one.value
        mark = "" if one.of == "library" else "# of the launch or the network's software: "
        lines.append(f"{mark}{one.name} = {one.value:.4g}  # was {one.before:.4g}; +- {spread:.0f} %")
    return "\n".join(lines) + "\n"


def _mean_log(times_us: Sequence[float | None]) -> float:
    return math.fsum(math.log(time_us) for time_us in times_us if time_us) / len(times_us)


def _recognizes(source: MeasurementFile) -> bool:
    return any(columns_of(line) is not None for line in source.text.split("\n"))


kinds.add(
    "collectives",
    MeasurementKind(
        name="collectives",
        summary="A log of nccl-tests or rccl-tests as it is printed: one row per size, with its times and bandwidths.",
        columns=("size", "time", "algbw", "busbw as nccl-tests prints them"),
        recognizes=_recognizes,
        calibrate=calibrate,
        key="collectives.constants",
        work="training",
    ),
)
