"""Predicted against measured collectives, for every table of every log of a folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.calibrate.nccl import log as nccl_log
from railyard.ask.calibrate.nccl.machine import CLASSES
from railyard.ask.calibrate.nccl.rows import CollectiveResult, listed_as_odd, number_of, validate_log
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.catalog import Catalog


@dataclass(frozen=True)
class Spread:
    """How large errors are.

    Attributes:
        n: How many.
        mean_error: Signed, says whether predictions are high or low.
        mean_abs_error: Mean of |error|.
        median_abs_error: Median of |error|.
        p90_abs_error: 90th percentile of |error|.
    """

    n: int
    mean_error: float | None
    mean_abs_error: float | None
    median_abs_error: float | None
    p90_abs_error: float | None


@dataclass(frozen=True)
class CollectivesReport:
    """Every row, and how good the predictions are.

    Attributes:
        rows: In the order of files and lines.
        logs: Number of files.
    """

    rows: tuple[CollectiveResult, ...]
    logs: int

    def of(
        self, *, error_of: str | None = None, log: str | None = None, launch: str | None = None, healthy: bool = False
    ) -> Spread:
        """The errors of some of the rows that were run.

        Args:
            error_of: `busbw` (from 1 MiB up) or `time` (below); None for both.
            log: Name of one log; None for all.
            launch: Class of launch; None for all.
            healthy: Leave out logs that are known to be odd.
        """
        errors = [
            row.error
            for row in self.rows
            if row.error is not None
            and error_of in (None, row.error_of)
            and log in (None, row.log)
            and launch in (None, row.launch)
            and not (healthy and row.odd)
        ]
        return spread(errors)

    def summary(self) -> dict[str, Any]:
        """Counts and errors: all, of healthy logs, of these by class of launch, and per log."""
        skipped = sum(row.status == "skipped" for row in self.rows)
        names = list(dict.fromkeys(row.log for row in self.rows))
        return {
            "logs": self.logs,
            "skipped": skipped,
            **asdict(self.of()),
            "busbw_from_1_mib": asdict(self.of(error_of="busbw")),
            "time_below_1_mib": asdict(self.of(error_of="time")),
            "healthy": {
                "busbw_from_1_mib": asdict(self.of(error_of="busbw", healthy=True)),
                "time_below_1_mib": asdict(self.of(error_of="time", healthy=True)),
            },
            "by_launch": {
                name: {
                    "busbw_from_1_mib": asdict(self.of(error_of="busbw", launch=name, healthy=True)),
                    "time_below_1_mib": asdict(self.of(error_of="time", launch=name, healthy=True)),
                }
                for name in CLASSES
            },
            "by_log": {
                name: {
                    "busbw_from_1_mib": asdict(self.of(error_of="busbw", log=name)),
                    "time_below_1_mib": asdict(self.of(error_of="time", log=name)),
                }
                for name in names
            },
        }

    def to_json(self) -> dict[str, Any]:
        """Rows and summary as plain lists and dictionaries."""
        return {"rows": [asdict(row) for row in self.rows], "summary": self.summary()}


def spread(errors: list[float]) -> Spread:
    """Mean, median and 90th percentile of errors."""
    if not errors:
        return Spread(0, None, None, None, None)
    size = sorted(abs(error) for error in errors)
    halfway, high = float(np.quantile(size, 0.5)), float(np.quantile(size, 0.9))
    return Spread(len(size), sum(errors) / len(errors), sum(size) / len(size), halfway, high)


def validate_collectives(folder: Path, catalog: Catalog) -> CollectivesReport:
    """Predicts every row of every log of a folder.

    Args:
        folder: Its `*.txt` files, and `*.log` files, are the logs.
        catalog: Where devices and servers are looked up.

    Raises:
        InputError: The folder does not exist or holds no log.
    """
    if not folder.is_dir():
        raise InputError("there is no such folder of logs", file=folder, key="logs")
    files = sorted(path for path in folder.iterdir() if path.suffix in (".txt", ".log") and path.is_file())
    if not files:
        raise InputError("the folder holds no logs", file=folder, key="logs", allowed="*.txt, *.log")
    rows: list[CollectiveResult] = []
    listed = listed_as_odd(folder)
    for path in files:
        log = nccl_log.read(path)
        found = validate_log(log, catalog)
        if number_of(log) in listed:
            reason = "listed as anomalous or untuned in the README beside the logs"
            found = [replace(row, odd=row.odd or reason) for row in found]
        rows += found
    return CollectivesReport(tuple(rows), len(files))
