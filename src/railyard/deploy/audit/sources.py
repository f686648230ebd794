"""Where a network as found comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.asbuilt import ibnetdiscover, lldp
from railyard.errors import InputError
from railyard.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.cluster.asbuilt.discovery import Discovery


def discovered(fabric: Path | None, folder: Path | None) -> Discovery:
    """The network of an `ibnetdiscover` file, or of a folder of LLDP neighbours.

    Raises:
        InputError: Nothing can be read.
    """
    found = lldp.read(folder) if folder is not None else ibnetdiscover.read(read_text(_given(fabric)), str(fabric))
    if found.cables:
        return found
    if found.problems:
        raise InputError.many(found.problems)
    raise InputError("there is no cable in it", file=folder or fabric)


def _given(path: Path | None) -> Path:
    if path is None:
        raise InputError("an audit reads a discovery")
    return path
