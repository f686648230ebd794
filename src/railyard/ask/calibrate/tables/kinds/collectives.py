"""Measured collectives: a log of nccl-tests or rccl-tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.ask.calibrate.tables.kind import TableKind, kinds

if TYPE_CHECKING:
    from railyard.ask.calibrate.tables.kind import Calibrated, Source
    from railyard.catalog import Catalog


def _recognizes(source: Source) -> bool:
    from railyard.ask.calibrate.nccl.log import columns_of

    return any(columns_of(line) is not None for line in source.text.split("\n"))


def _calibrate(source: Source, catalog: Catalog) -> Calibrated:
    from railyard.ask.calibrate.tables import collective_fit

    return collective_fit.calibrate(source, catalog)


kinds.add(
    "collectives",
    TableKind(
        name="collectives",
        summary="A log of nccl-tests or rccl-tests as it is printed: a row a size, with its times and bandwidths.",
        columns=("size", "time", "algbw", "busbw as nccl-tests prints them"),
        recognizes=_recognizes,
        calibrate=_calibrate,
    ),
)
