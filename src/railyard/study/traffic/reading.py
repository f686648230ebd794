"""Traffic of any of the formats that are known, told apart by name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from railyard.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.scenario.packet.settings import Settings
    from railyard.workload.replay.flows import FlowTable
    from railyard.workload.replay.htsim_matrix import Failure

FORMATS = {
    ".cm": "htsim", ".tm": "htsim", ".goal": "goal", ".bin": "goal", ".et": "chakra", ".csv": "csv",
}  # fmt: skip

_MODULES = {"htsim": "htsim_matrix", "goal": "goal", "chakra": "chakra", "csv": "flows_csv"}


def load(path: Path) -> None:
    """Loads the importer that a file needs, so that reading it can be timed apart."""
    kind = _kind(path)
    if kind is not None:
        importlib.import_module(f"railyard.workload.replay.{_MODULES[kind]}")


def _kind(path: Path) -> str | None:
    return "chakra" if path.is_dir() else FORMATS.get(path.suffix.lower())


def read(path: Path, settings: Settings) -> tuple[FlowTable, tuple[Failure, ...]]:
    """The flows of a file, and the links that it takes out.

    Raises:
        InputError: The format is not known by the file's name, or the file is wrong.
    """
    kind = _kind(path)
    if kind == "htsim":
        from railyard.workload.replay import htsim_matrix

        matrix = htsim_matrix.read(path, start_unit=settings.start_unit, recv_done_trigger=settings.recv_done_trigger)
        return matrix.flows, matrix.failures
    if kind == "goal":
        from railyard.workload.replay import goal

        return goal.read(path), ()
    if kind == "chakra":
        from railyard.workload.replay import chakra

        return chakra.read(path), ()
    if kind == "csv":
        from railyard.workload.replay import flows_csv

        return flows_csv.read(path, hosts=settings.hosts), ()
    raise InputError("the format of the traffic is not known by this name", file=path, allowed=tuple(FORMATS))
