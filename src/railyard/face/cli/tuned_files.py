"""Configurations of a tuned scenario: written for switches of several systems and for servers, and what they say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from railyard.ask.deploy.emit.settings import MARK, SERVERS, SYSTEMS, Rendered, rendered
from railyard.ask.deploy.folders import replaced
from railyard.face.cli.tables import Table, emit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from railyard.work.scenario.load import Draft


def write_configured(draft: Draft, folder: Path, progress: Callable[[str, float], None]) -> Rendered:
    """Writes the files of a scenario, all or none.

    Raises:
        InputError: The folder holds something else, or a setting is one that switches cannot be told.
    """
    found = rendered(draft, progress)
    rows = [
        {"setting": one.what, "meant": one.meant, "read_back": one.found, "equal": one.equal} for one in found.readings
    ]
    plain = json.dumps({"format": "railyard-settings/1", "settings": rows, "left_out": found.left_out}, indent=1)
    replaced(folder, MARK, [*found.files.items(), (MARK, plain + "\n")], progress)
    return found


def print_readings(found: Rendered) -> None:
    """What was meant, and what each file says when it is read back."""
    columns = (*SYSTEMS, SERVERS)
    table = Table(("read back from the files", "meant", *columns, "equal"), ())
    for one in found.readings:
        cells = [_word(one.found[column]) if column in one.found else "" for column in columns]
        table.add(one.what, _word(one.meant), *cells, "yes" if one.equal else "NO")
    emit("")
    table.print()
    for words in found.left_out:
        emit(f"no file says: {words}")


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(_word(part) for part in value)
    if value is None:
        return "nothing"
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
