"""Traffic of any of the formats that are known, with what the settings of a run say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.workload.replay import formats

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.scenario.packet.settings import Settings
    from railyard.workload.replay.trace import Trace


def load(path: Path) -> None:
    """Loads the importer that a file needs, so that reading it can be timed apart."""
    formats.load(formats.format_of(path))


def read(path: Path, settings: Settings) -> Trace:
    """The work of a file.

    Raises:
        InputError: The format is not known, or the file is wrong.
    """
    name = formats.format_of(path)
    options: dict[str, dict[str, Any]] = {
        "htsim": {"start_unit": settings.start_unit, "recv_done_trigger": settings.recv_done_trigger},
        "csv": {"hosts": settings.hosts},
    }
    return formats.read(path, name, options.get(name))
