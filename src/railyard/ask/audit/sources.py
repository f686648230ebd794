"""Where a network as found comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.asbuilt import ibnetdiscover, lldp, netbox
from railyard.kit.errors import InputError
from railyard.kit.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.cluster.asbuilt.discovery import Discovery


def discovered(
    fabric: Path | None, folder: Path | None, documented: Path | None, *, planned: bool
) -> tuple[Discovery, Discovery | None]:
    """The network as found, and as NetBox has it where that is what was planned.

    Args:
        fabric: Output of `ibnetdiscover`.
        folder: Of LLDP neighbours.
        documented: NetBox's cables: what was planned besides a discovery, else what is audited.
        planned: Whether a scenario is the plan.

    Raises:
        InputError: There is not one discovery, or nothing can be read.
    """
    listed = [one for one in (fabric, folder) if one is not None]
    if len(listed) > 1 or (not listed and documented is None) or (listed and documented is not None and planned):
        raise InputError(
            "an audit reads one discovery, and holds it against one plan",
            allowed="`--ibnetdiscover FILE`, `--lldp FOLDER` or `--netbox FILE`; NetBox may be the plan of the others",
        )
    papers = None if documented is None else _whole(netbox.read(documented), documented)
    if not listed:
        assert papers is not None
        return papers, None
    found = lldp.read(listed[0]) if folder is not None else ibnetdiscover.read(read_text(listed[0]), str(fabric))
    return _whole(found, listed[0]), papers


def _whole(found: Discovery, path: Path) -> Discovery:
    if found.cables:
        return found
    if found.problems:
        raise InputError.many(found.problems)
    raise InputError("there is no cable in it", file=path)
